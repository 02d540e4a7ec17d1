use outlast::prelude::*;

#[outlast::workflow(timeout = "soon")]
async fn checkout(_ctx: Ctx, order: u32) -> Result<u32, AnyError> {
    Ok(order)
}

#[outlast::job(timeout = "90sec", backoff = "20m")]
async fn send_mail(_job: JobCtx, _to: String) -> Result<(), AnyError> {
    Ok(())
}

#[outlast::job(timeout = 30)]
async fn send_post(_job: JobCtx, _to: String) -> Result<(), AnyError> {
    Ok(())
}

fn main() {}
