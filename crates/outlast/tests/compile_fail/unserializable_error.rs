use outlast::prelude::*;

#[derive(Debug)]
struct PayError;

#[outlast::workflow]
async fn checkout(_ctx: Ctx, order: u32) -> Result<u32, PayError> {
    Ok(order)
}

fn main() {}
