use outlast::prelude::*;

struct Order;

#[outlast::workflow]
async fn checkout(_ctx: Ctx, _order: Order) -> Result<u32, AnyError> {
    Ok(1)
}

fn main() {}
