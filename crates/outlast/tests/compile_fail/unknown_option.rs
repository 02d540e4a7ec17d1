use outlast::prelude::*;

#[outlast::job(retries = 5, quue = "mail")]
async fn send_mail(_job: JobCtx, _to: String) -> Result<(), AnyError> {
    Ok(())
}

#[outlast::workflow(attempts = 5)]
async fn checkout(_ctx: Ctx, order: u32) -> Result<u32, AnyError> {
    Ok(order)
}

fn main() {
    // Known in spite of its options.
    let _ = send_mail;
}
