use outlast::prelude::*;

#[outlast::workflow]
async fn checkout(_ctx: Ctx, order: u32) -> u32 {
    order
}

#[outlast::job]
async fn send_mail(_job: JobCtx, _to: String) {}

fn main() {}
