use outlast::prelude::*;

type Result<T> = std::result::Result<T, AnyError>;

#[outlast::workflow]
async fn checkout(_ctx: Ctx, order: u32) -> Result<u32> {
    Ok(order)
}

fn main() {}
