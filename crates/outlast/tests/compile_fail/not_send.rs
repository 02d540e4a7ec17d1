use outlast::prelude::*;
use std::rc::Rc;

#[outlast::workflow]
async fn checkout(ctx: Ctx, order: u32) -> Result<u32, AnyError> {
    let shared = Rc::new(order);
    ctx.sleep(1.hour()).await?;
    Ok(*shared)
}

fn main() {}
