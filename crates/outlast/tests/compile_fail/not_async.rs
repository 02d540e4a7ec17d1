use outlast::prelude::*;

#[outlast::workflow]
fn checkout(_ctx: Ctx, order: u32) -> Result<u32, AnyError> {
    Ok(order)
}

fn main() {}
