//! The options between the parentheses: `#[outlast::job(queue = "mail", attempts = 5)]`.
//!
//! They are judged here as `outlast` judges them when a definition is registered, only earlier: by the
//! compiler, at the place where they are written.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Token};

use crate::duration;
use crate::expand::Kind;
use crate::faults::Faults;

/// What was written; `None` leaves the default of `outlast::Options`.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    name: String,
    version: Option<u32>,
    queue: Option<String>,
    priority: Option<u8>,
    timeout: Option<Duration>,
    attempts: Option<u32>,
    backoff: Option<Duration>,
    max_backoff: Option<Duration>,
    role: Option<String>,
    http_timeout: Option<Duration>,
    unique: Option<Unique>,
    retention: Option<Duration>,
}

/// For how long a run is the only one with its arguments.
#[derive(Debug, PartialEq)]
enum Unique {
    Unfinished,
    For(Duration),
}

/// Every option, with an example for whoever got it wrong.
const KNOWN: [(&str, &str); 12] = [
    ("name", r#"name = "checkout""#),
    ("version", "version = 2"),
    ("queue", r#"queue = "orders""#),
    ("priority", "priority = 3"),
    ("timeout", r#"timeout = "30s""#),
    ("role", r#"role = "admin""#),
    ("http_timeout", r#"http_timeout = "10s""#),
    ("unique", r#"unique = "unfinished""#),
    ("retention", r#"retention = "7d""#),
    ("attempts", "attempts = 5"),
    ("backoff", r#"backoff = "1s""#),
    ("max_backoff", r#"max_backoff = "10m""#),
];

/// Those that a workflow does not have.
const FOR_JOBS: [&str; 3] = ["attempts", "backoff", "max_backoff"];

/// What others call the same.
const SYNONYMS: [(&str, &str); 4] =
    [("retries", "attempts"), ("retry", "attempts"), ("max_retries", "attempts"), ("deadline", "timeout")];

/// The longest name, in bytes.
const NAME: usize = 200;
/// The longest pause unless `max_backoff` says otherwise, as in `outlast::Retry::times`.
const PAUSE: Duration = Duration::from_secs(600);

impl Options {
    /// Takes every option that is right; the faults tell of the others. `function` gives its name unless
    /// another is written.
    pub(crate) fn read(kind: Kind, function: &Ident, written: TokenStream, faults: &mut Faults) -> Options {
        let args =
            faults.keep(Punctuated::<Arg, Token![,]>::parse_terminated.parse2(written)).unwrap_or_default();
        let mut options = Options::new(function.unraw().to_string());
        for (at, arg) in args.iter().enumerate() {
            if args.iter().take(at).any(|earlier| earlier.name == arg.name) {
                faults.add(&arg.name, format!("`{}` is given twice: keep one of the two", arg.name));
            } else {
                faults.keep(options.take(kind, arg));
            }
        }
        let given = |name: &str| args.iter().find(|arg| arg.name == name);
        if let (None, Some(fault)) = (given("name"), fault_of_name(&options.name)) {
            faults.add(function, format!("the name {fault}: give another with the option `name`"));
        }
        if let (Some(arg), Some(first)) = (given("backoff"), options.backoff)
            && first > options.max_backoff.unwrap_or(PAUSE)
        {
            faults.push(arg.wrong(
                "is longer than `max_backoff`, the longest pause (`10m` unless given): raise that too",
            ));
        }
        options
    }

    fn new(name: String) -> Options {
        Options {
            name,
            version: None,
            queue: None,
            priority: None,
            timeout: None,
            attempts: None,
            backoff: None,
            max_backoff: None,
            role: None,
            http_timeout: None,
            unique: None,
            retention: None,
        }
    }

    fn take(&mut self, kind: Kind, arg: &Arg) -> syn::Result<()> {
        match arg.known(kind)? {
            "name" => self.name = arg.definition_name()?,
            "version" => self.version = Some(arg.number(0..=u32::MAX)?),
            "queue" => self.queue = Some(arg.name()?),
            "priority" => self.priority = Some(arg.number(0..=9)? as u8),
            "timeout" => self.timeout = Some(arg.timeout()?),
            "role" => self.role = Some(arg.name()?),
            "http_timeout" => self.http_timeout = Some(arg.timeout()?),
            "unique" => self.unique = Some(arg.unique()?),
            "retention" => self.retention = Some(arg.retention()?),
            "attempts" => self.attempts = Some(arg.number(1..=1_000_000)?),
            "backoff" => self.backoff = Some(arg.duration()?),
            "max_backoff" => self.max_backoff = Some(arg.duration()?),
            other => unreachable!("{other} is known, but nobody takes it"),
        }
        Ok(())
    }

    /// An expression of type `outlast::Options`.
    pub(crate) fn into_tokens(self) -> TokenStream {
        let name = self.name;
        let defaults = quote!(::outlast::Options::new(#name));
        let mut fields = TokenStream::new();
        if let Some(version) = self.version {
            fields.extend(quote!(version: #version,));
        }
        if let Some(queue) = self.queue {
            fields.extend(quote!(queue: #queue,));
        }
        if let Some(priority) = self.priority {
            fields.extend(quote!(priority: #priority,));
        }
        if let Some(timeout) = self.timeout.map(tokens) {
            fields.extend(quote!(timeout: ::core::option::Option::Some(#timeout),));
        }
        if let Some(role) = self.role {
            fields.extend(quote!(role: ::core::option::Option::Some(#role),));
        }
        if let Some(timeout) = self.http_timeout.map(tokens) {
            fields.extend(quote!(http_timeout: ::core::option::Option::Some(#timeout),));
        }
        if let Some(unique) = self.unique {
            let unique = match unique {
                Unique::Unfinished => quote!(Unfinished),
                Unique::For(period) => {
                    let period = tokens(period);
                    quote!(For(#period))
                }
            };
            fields.extend(quote!(unique: ::core::option::Option::Some(::outlast::UniqueArgs::#unique),));
        }
        if let Some(keep) = self.retention.map(tokens) {
            fields.extend(quote!(retention: ::core::option::Option::Some(::outlast::Retention::all(#keep)),));
        }
        if self.attempts.is_some() || self.backoff.is_some() || self.max_backoff.is_some() {
            let times = self.attempts.map(|attempts| quote!(::outlast::Retry::times(#attempts)));
            let times = times.unwrap_or_else(|| quote!(#defaults.retry));
            let first = self.backoff.map(tokens).map(|pause| quote!(.first(#pause)));
            let at_most = self.max_backoff.map(tokens).map(|pause| quote!(.at_most(#pause)));
            fields.extend(quote!(retry: #times #first #at_most,));
        }
        match fields.is_empty() {
            true => defaults,
            false => quote!(::outlast::Options { #fields ..#defaults }),
        }
    }
}

/// One `name = value`.
struct Arg {
    name: Ident,
    value: Expr,
}

impl Parse for Arg {
    fn parse(input: ParseStream<'_>) -> syn::Result<Arg> {
        if let Ok(text) = input.parse::<LitStr>() {
            return Err(syn::Error::new(
                text.span(),
                format!("options have names: write `name = {:?}`", text.value()),
            ));
        }
        if !input.peek(Ident::peek_any) {
            return Err(
                input.error("options are written like `queue = \"orders\"`, with commas between them")
            );
        }
        let name = input.call(Ident::parse_any)?;
        if !input.peek(Token![=]) {
            let remedy = format!("`{name}` has no value: write it like `{}`", example(&name));
            return Err(syn::Error::new(name.span(), remedy));
        }
        input.parse::<Token![=]>()?;
        Ok(Arg { name, value: input.parse()? })
    }
}

impl Arg {
    /// The option's name, if this kind of definition has it.
    fn known(&self, kind: Kind) -> syn::Result<&'static str> {
        let fault = |message: String| Err(syn::Error::new(self.name.span(), message));
        let has = |option: &str| kind == Kind::Job || !FOR_JOBS.contains(&option);
        match KNOWN.iter().find(|(known, _)| self.name == known) {
            Some((known, _)) if has(known) => Ok(known),
            Some((known, _)) => fault(format!(
                "`{known}` is an option of jobs: a workflow is not tried again from its beginning, but its steps are, \
                 with `ctx.step(…).retry(Retry::times(5))`"
            )),
            None => {
                let options: Vec<_> =
                    KNOWN.iter().map(|(known, _)| *known).filter(|known| has(known)).collect();
                let meant = nearest(&self.name.to_string(), &options)
                    .map(|option| format!(": did you mean `{option}`?"));
                fault(format!(
                    "a {kind} has no option `{}`{} (its options: {})",
                    self.name,
                    meant.unwrap_or_default(),
                    options.join(", ")
                ))
            }
        }
    }

    fn text(&self) -> syn::Result<String> {
        match literal(&self.value) {
            Some(Lit::Str(text)) => Ok(text.value()),
            _ => Err(self.mistyped("a text")),
        }
    }

    fn number(&self, range: RangeInclusive<u32>) -> syn::Result<u32> {
        let Some(Lit::Int(number)) = literal(&self.value) else {
            return Err(self.mistyped("a whole number"));
        };
        let fits = number.base10_parse().ok().filter(|number| range.contains(number));
        fits.ok_or_else(|| self.wrong(format!("is a number from {} to {}", range.start(), range.end())))
    }

    fn duration(&self) -> syn::Result<Duration> {
        duration::parse(&self.text()?).map_err(|remedy| self.wrong(format!("is no duration: {remedy}")))
    }

    fn timeout(&self) -> syn::Result<Duration> {
        match self.duration()? {
            Duration::ZERO => {
                Err(self.wrong("of zero would leave no time at all: leave it out for the default"))
            }
            timeout => Ok(timeout),
        }
    }

    /// `"unfinished"`, or for how long.
    fn unique(&self) -> syn::Result<Unique> {
        if self.text()? == "unfinished" {
            return Ok(Unique::Unfinished);
        }
        match duration::parse(&self.text()?) {
            Ok(Duration::ZERO) => {
                Err(self.wrong("for no time means nothing: leave it out, or write `unique = \"unfinished\"`"))
            }
            Ok(period) => Ok(Unique::For(period)),
            Err(remedy) => Err(self.wrong(format!("is neither `\"unfinished\"` nor a duration: {remedy}"))),
        }
    }

    fn retention(&self) -> syn::Result<Duration> {
        match self.duration()? {
            Duration::ZERO => {
                Err(self.wrong("is from 1ms to 100 years: with none its runs would be gone as they end"))
            }
            keep => Ok(keep),
        }
    }

    fn name(&self) -> syn::Result<String> {
        let name = self.text()?;
        match fault_of_name(&name) {
            Some(fault) => Err(self.wrong(fault)),
            None => Ok(name),
        }
    }

    fn definition_name(&self) -> syn::Result<String> {
        let name = self.name()?;
        match name.contains('@') {
            true => {
                Err(self.wrong("cannot contain `@`, which stands before a version: use the option `version`"))
            }
            false => Ok(name),
        }
    }

    fn mistyped(&self, wanted: &str) -> syn::Error {
        self.wrong(format!("takes {wanted}, written out: `{}`", example(&self.name)))
    }

    fn wrong(&self, fault: impl Display) -> syn::Error {
        syn::Error::new_spanned(&self.value, format!("`{}` {fault}", self.name))
    }
}

fn example(option: &Ident) -> &'static str {
    KNOWN.iter().find(|(known, _)| option == known).map_or(KNOWN[2].1, |(_, example)| example)
}

/// The option that someone who wrote `name` may have meant.
fn nearest<'a>(name: &str, options: &[&'a str]) -> Option<&'a str> {
    let name = SYNONYMS.iter().find(|(other, _)| *other == name).map_or(name, |(_, ours)| ours);
    let distance = |option: &&str| strsim::damerau_levenshtein(option, name);
    let alike = |option: &&str| name.contains(*option) || distance(option) <= 2;
    options.iter().copied().filter(alike).min_by_key(distance)
}

fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        // What came through `macro_rules!` stands in an invisible group.
        Expr::Group(group) => literal(&group.expr),
        _ => None,
    }
}

/// What is wrong with the name of a definition or queue.
fn fault_of_name(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("is empty".into());
    }
    if name.len() > NAME {
        return Some(format!("has {} bytes, and {NAME} is the most", name.len()));
    }
    name.chars().any(char::is_control).then(|| "cannot contain control characters".into())
}

fn tokens(duration: Duration) -> TokenStream {
    let millis = duration.as_millis() as u64;
    quote!(::outlast::__private::Duration::from_millis(#millis))
}

#[cfg(test)]
mod tests {
    use quote::format_ident;

    use super::*;

    fn read(kind: Kind, written: TokenStream) -> (Options, Vec<String>) {
        let mut faults = Faults::default();
        let options = Options::read(kind, &format_ident!("r#type"), written, &mut faults);
        (options, faults.messages())
    }

    #[test]
    fn options_are_read_in_any_order() {
        let written = quote!(
            timeout = "30s",
            name = "mail v2",
            attempts = 5,
            version = 2,
            queue = "mail",
            priority = 3,
            max_backoff = "1h",
            backoff = "250ms",
            role = "admin",
            http_timeout = "10s",
            unique = "24h",
            retention = "7d",
        );
        let (options, faults) = read(Kind::Job, written);
        assert_eq!(faults, [""; 0]);
        assert_eq!(
            options,
            Options {
                name: "mail v2".into(),
                version: Some(2),
                queue: Some("mail".into()),
                priority: Some(3),
                timeout: Some(Duration::from_secs(30)),
                attempts: Some(5),
                backoff: Some(Duration::from_millis(250)),
                max_backoff: Some(Duration::from_secs(3600)),
                role: Some("admin".into()),
                http_timeout: Some(Duration::from_secs(10)),
                unique: Some(Unique::For(Duration::from_secs(86_400))),
                retention: Some(Duration::from_secs(7 * 86_400)),
            }
        );
    }

    #[test]
    fn only_what_was_written_differs_from_the_defaults() {
        let same = |written, expected: TokenStream| {
            assert_eq!(read(Kind::Job, written).0.into_tokens().to_string(), expected.to_string());
        };
        same(quote!(), quote!(::outlast::Options::new("type")));
        same(
            quote!(role = "admin"),
            quote!(::outlast::Options {
                role: ::core::option::Option::Some("admin"),
                ..::outlast::Options::new("type")
            }),
        );
        same(
            quote!(name = "a", timeout = "2s"),
            quote!(::outlast::Options {
                timeout: ::core::option::Option::Some(::outlast::__private::Duration::from_millis(2000u64)),
                ..::outlast::Options::new("a")
            }),
        );
        same(
            quote!(unique = "unfinished", retention = "2s"),
            quote!(::outlast::Options {
                unique: ::core::option::Option::Some(::outlast::UniqueArgs::Unfinished),
                retention: ::core::option::Option::Some(::outlast::Retention::all(
                    ::outlast::__private::Duration::from_millis(2000u64)
                )),
                ..::outlast::Options::new("type")
            }),
        );
        same(
            quote!(unique = "2s"),
            quote!(::outlast::Options {
                unique: ::core::option::Option::Some(::outlast::UniqueArgs::For(
                    ::outlast::__private::Duration::from_millis(2000u64)
                )),
                ..::outlast::Options::new("type")
            }),
        );
        same(
            quote!(backoff = "2s"),
            quote!(::outlast::Options {
                retry: ::outlast::Options::new("type")
                    .retry
                    .first(::outlast::__private::Duration::from_millis(2000u64)),
                ..::outlast::Options::new("type")
            }),
        );
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_remedy() {
        let long = "x".repeat(201);
        let cases = [
            (quote!("mail"), "options have names: write `name = \"mail\"`"),
            (quote!(5), "options are written like `queue = \"orders\"`"),
            (quote!(version), "`version` has no value: write it like `version = 2`"),
            (quote!(queue("mail")), "`queue` has no value: write it like `queue = \"orders\"`"),
            (
                quote!(quue = "mail"),
                "a job has no option `quue`: did you mean `queue`? (its options: name, version,",
            ),
            (quote!(max_attempts = 3), "did you mean `attempts`?"),
            (quote!(retries = 3), "did you mean `attempts`?"),
            (quote!(colour = "red"), "a job has no option `colour` (its options"),
            (quote!(queue = "a", queue = "b"), "`queue` is given twice"),
            (quote!(queue = 5), "`queue` takes a text, written out: `queue = \"orders\"`"),
            (quote!(queue = QUEUE), "`queue` takes a text, written out"),
            (quote!(version = "2"), "`version` takes a whole number, written out: `version = 2`"),
            (quote!(version = 4294967296), "`version` is a number from 0 to 4294967295"),
            (quote!(priority = -1), "`priority` takes a whole number"),
            (quote!(priority = 10), "`priority` is a number from 0 to 9"),
            (quote!(attempts = 0), "`attempts` is a number from 1 to 1000000"),
            (quote!(timeout = 30), "`timeout` takes a text, written out: `timeout = \"30s\"`"),
            (quote!(timeout = "soon"), "`timeout` is no duration: write whole numbers with units"),
            (quote!(timeout = "0s"), "`timeout` of zero"),
            (quote!(http_timeout = "0s"), "`http_timeout` of zero would leave no time at all"),
            (quote!(retention = "0s"), "`retention` is from 1ms to 100 years"),
            (
                quote!(retention = "40000d"),
                "`retention` is no duration: the longest duration is a hundred years",
            ),
            (quote!(retention = 7), "`retention` takes a text, written out: `retention = \"7d\"`"),
            (quote!(unique = "0s"), "`unique` for no time means nothing"),
            (
                quote!(unique = "always"),
                "`unique` is neither `\"unfinished\"` nor a duration: write whole numbers",
            ),
            (quote!(unique = true), "`unique` takes a text, written out: `unique = \"unfinished\"`"),
            (quote!(backoff = "1.5s"), "`backoff` is no duration"),
            (quote!(backoff = "11m"), "`backoff` is longer than `max_backoff`"),
            (quote!(max_backoff = "1m", backoff = "2m"), "`backoff` is longer than `max_backoff`"),
            (quote!(name = ""), "`name` is empty"),
            (quote!(name = #long), "`name` has 201 bytes, and 200 is the most"),
            (quote!(name = "mail@2"), "`name` cannot contain `@`"),
            (quote!(name = "a\nb"), "`name` cannot contain control characters"),
            (quote!(queue = "a\0b"), "`queue` cannot contain control characters"),
        ];
        for (written, expected) in cases {
            let (_, said) = read(Kind::Job, written.clone());
            assert!(said.len() == 1 && said[0].contains(expected), "{written}: {said:?}");
        }
    }

    #[test]
    fn a_workflow_is_told_how_its_steps_are_tried_again() {
        for written in [quote!(attempts = 5), quote!(backoff = "1s"), quote!(max_backoff = "1m")] {
            let (options, said) = read(Kind::Workflow, written);
            assert_eq!(options, Options::new("type".into()));
            assert!(said[0].contains("is an option of jobs"), "{said:?}");
        }
    }

    #[test]
    fn every_fault_is_told_and_the_right_options_are_kept() {
        let (options, said) = read(Kind::Job, quote!(priority = 10, queue = "mail", attempts = 0));
        assert_eq!(options, Options { queue: Some("mail".into()), ..Options::new("type".into()) });
        assert_eq!(said.len(), 2);
    }

    #[test]
    fn a_function_with_too_long_a_name_needs_another() {
        let long = format_ident!("{}", "x".repeat(201));
        let mut faults = Faults::default();
        Options::read(Kind::Job, &long, quote!(name = "short"), &mut faults);
        Options::read(Kind::Job, &long, quote!(), &mut faults);
        assert_eq!(
            faults.messages(),
            ["the name has 201 bytes, and 200 is the most: give another with the option `name`"]
        );
    }
}
