//! The signature of a definition's code: a number that changes when its tokens do.
//!
//! Made of the tokens one by one, so that neither how the source is laid out nor how a compiler prints it counts.
//! Comments are no tokens. What the code calls has signatures of its own, or none.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// FNV-1a: few lines, the same everywhere, and nobody tries to make two codes look alike.
struct Digest(u64);

impl Digest {
    fn take(&mut self, text: &str) {
        // The length before the text keeps `a b` and `ab` apart.
        let bytes = (text.len() as u64).to_le_bytes().into_iter().chain(text.bytes());
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn take_all(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => self.take(&ident.to_string()),
                TokenTree::Punct(punct) => self.take(punct.as_char().encode_utf8(&mut [0; 4])),
                TokenTree::Literal(literal) => self.take(&literal.to_string()),
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::Bracket => ("[", "]"),
                        // Made by macros, and seen by nobody.
                        Delimiter::None => ("", ""),
                    };
                    self.take(open);
                    self.take_all(group.stream());
                    self.take(close);
                }
            }
        }
    }
}

/// The signature of these tokens, as 16 hexadecimal digits.
pub(crate) fn signature(tokens: TokenStream) -> String {
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    digest.take_all(tokens);
    format!("{:016x}", digest.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(source: &str) -> String {
        signature(source.parse().unwrap())
    }

    #[test]
    fn layout_and_comments_do_not_count_and_everything_else_does() {
        let code = "{ ctx.step(\"charge\", |s| pay(s)).await?; Ok(1) }";
        let laid_out =
            "{\n  // takes money\n  ctx . step ( \"charge\" , | s | pay ( s ) ) . await ? ;\n Ok(1)\n}";
        assert_eq!(of(code), of(laid_out));
        for (from, to) in
            [("charge", "bill"), ("(1)", "(2)"), ("pay(s)", "pay[s]"), ("ctx.step", "ctxstep"), ("?;", ";")]
        {
            assert_ne!(of(code), of(&code.replace(from, to)), "{from} became {to}");
        }
    }

    #[test]
    fn the_same_code_has_the_same_signature_for_ever() {
        assert_eq!(of("async fn f(ctx: Ctx, n: u32) -> Result<u32, E> { Ok(n) }"), "00cd4854b7b9c703");
    }
}
