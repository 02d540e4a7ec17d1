use outlast::prelude::*;

#[outlast::workflow]
async fn checkout(_ctx: Ctx) -> Result<u32, AnyError> {
    Ok(1)
}

fn main() {}
