use outlast::prelude::*;

#[outlast::workflow]
pub struct Checkout {
    pub id: u32,
}

struct Shop;

impl Shop {
    #[outlast::workflow]
    async fn sell(&self, _ctx: Ctx, order: u32) -> Result<u32, AnyError> {
        Ok(order)
    }
}

fn main() {}
