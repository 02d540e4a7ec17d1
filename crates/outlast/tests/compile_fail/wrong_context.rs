use outlast::prelude::*;

#[outlast::job]
async fn send_mail(_ctx: Ctx, _to: String) -> Result<(), AnyError> {
    Ok(())
}

fn main() {}
