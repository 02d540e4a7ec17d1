use outlast::prelude::*;

#[outlast::workflow]
async fn greet(_ctx: &Ctx, name: &str) -> Result<String, AnyError> {
    Ok(format!("Hello, {name}!"))
}

#[outlast::workflow]
async fn count(_ctx: Ctx, names: Vec<&'static Order>) -> Result<usize, AnyError> {
    Ok(names.len())
}

struct Order;

fn main() {}
