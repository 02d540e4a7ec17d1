use outlast::prelude::*;

#[outlast::workflow]
async fn checkout<T>(_ctx: Ctx, order: T) -> Result<T, AnyError>
where
    T: Send,
{
    Ok(order)
}

fn main() {}
