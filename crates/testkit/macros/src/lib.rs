//! `#[store_test]`: a story that is told on every store.
//!
//! An attribute and not `macro_rules`, so that a story stays a plain function which rustfmt and editors
//! understand. It reads one name and writes a module of the same name beside the function.

use proc_macro::{TokenStream, TokenTree};

/// Makes tests of a story, one for each store and number of shards.
///
/// `async fn a_sentence(world: World)` becomes `a_sentence::sqlite`, `a_sentence::sqlite_4_shards`,
/// `a_sentence::postgres` and `a_sentence::postgres_4_shards`. What only one database can show says so:
/// `#[store_test(postgres)]`, `#[store_test(sqlite)]`.
#[proc_macro_attribute]
pub fn store_test(only: TokenStream, story: TokenStream) -> TokenStream {
    let written = match name_of(story.clone()) {
        Some(name) => tests(&name, &only.to_string()),
        None => Err("`#[store_test]` stands before an `async fn`".to_owned()),
    };
    let written = written.unwrap_or_else(|wrong| format!("compile_error!({wrong:?});"));
    let written: TokenStream = written.parse().expect("what we wrote is Rust");
    story.into_iter().chain(written).collect()
}

fn tests(name: &str, only: &str) -> Result<String, String> {
    let stores: &[&str] = match only {
        "" => &["Sqlite", "Postgres"],
        "sqlite" => &["Sqlite"],
        "postgres" => &["Postgres"],
        _ => return Err(format!("`{only}` is no store: write sqlite, postgres or nothing")),
    };
    let one = |store: &str, shards: u16, behind: &str| {
        let test = store.to_lowercase() + behind;
        format!(
            "#[test] fn {test}() {{
                 ::outlast_testkit::tell(::outlast_testkit::StoreKind::{store}, {shards}, super::{name})
             }}"
        )
    };
    let tests: String = stores.iter().map(|store| one(store, 1, "") + &one(store, 4, "_4_shards")).collect();
    Ok(format!("mod {name} {{ {tests} }}"))
}

/// The name behind `fn`.
fn name_of(story: TokenStream) -> Option<String> {
    let mut words = story.into_iter().skip_while(|token| !is_fn(token)).skip(1);
    words.next().map(|name| name.to_string())
}

fn is_fn(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Ident(word) if word.to_string() == "fn")
}
