use outlast::prelude::*;

#[outlast::job]
async fn send_mail(_job: JobCtx, _to: String, _subject: String, _text: String) -> Result<(), AnyError> {
    Ok(())
}

fn main() {}
