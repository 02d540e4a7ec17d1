use outlast::prelude::*;

#[outlast::job(queue = "a", queue = "b", priority = 10, attempts = 0, version = "2", name = "mail@2")]
async fn send_mail(_job: JobCtx, _to: String) -> Result<(), AnyError> {
    Ok(())
}

#[outlast::workflow("checkout")]
async fn checkout(_ctx: Ctx, order: u32) -> Result<u32, AnyError> {
    Ok(order)
}

fn main() {}
