//! The signature: what a workflow or job takes and gives, and what it cannot be.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{FnArg, GenericArgument, PathArguments, ReturnType, Safety, Signature, Type};

use crate::expand::Kind;
use crate::faults::Faults;

/// The types at the boundary, as they are written.
pub(crate) struct Boundary<'a> {
    pub(crate) ctx: &'a Type,
    pub(crate) input: &'a Type,
    pub(crate) output: &'a Type,
    pub(crate) error: &'a Type,
}

/// Finds the types, or tells all that stands in the way.
pub(crate) fn read<'a>(kind: Kind, sig: &'a Signature, faults: &mut Faults) -> Option<Boundary<'a>> {
    let mut found = Faults::default();
    check_qualifiers(kind, sig, &mut found);
    check_generics(kind, sig, &mut found);
    let taken = taken(kind, sig, &mut found);
    let given = given(kind, sig, &mut found);
    let boundary = match (taken, given) {
        (Some((ctx, input)), Some((output, error))) if found.is_empty() => {
            Some(Boundary { ctx, input, output, error })
        }
        _ => None,
    };
    faults.extend(found);
    boundary
}

fn check_qualifiers(kind: Kind, sig: &Signature, faults: &mut Faults) {
    if sig.asyncness.is_none() {
        faults.add(sig.fn_token, format!("a {kind} waits for others, so it is async: write `async fn`"));
    }
    if let Some(constness) = &sig.constness {
        faults.add(constness, format!("a {kind} runs later, on a node, and cannot be `const`"));
    }
    if let Safety::Unsafe(safety) = &sig.safety {
        let why = "Outlast calls it and cannot keep promises for it: use an `unsafe` block inside";
        faults.add(safety, format!("a {kind} cannot be `unsafe`, because {why}"));
    }
    if let Some(abi) = &sig.abi {
        faults.add(abi, format!("a {kind} is called by Outlast only: remove `extern`"));
    }
}

fn check_generics(kind: Kind, sig: &Signature, faults: &mut Faults) {
    if !sig.generics.params.is_empty() {
        let why = "one name stands for one input and one output type";
        faults.add(&sig.generics, format!("a {kind} cannot be generic, because {why}: write the types out"));
    }
    if let Some(clause) = &sig.generics.where_clause {
        faults.add(clause, format!("a {kind} cannot have a `where` clause, because it cannot be generic"));
    }
}

/// The types of the context and of the input.
fn taken<'a>(kind: Kind, sig: &'a Signature, faults: &mut Faults) -> Option<(&'a Type, &'a Type)> {
    let mut types = Vec::new();
    for param in &sig.inputs {
        match param {
            FnArg::Typed(param) => types.push(&*param.ty),
            FnArg::Receiver(me) => {
                let why = "it may run in another process, where there is no `self`";
                let remedy = "put data into the input, and what the process owns into `.state(…)`";
                faults.add(me, format!("a {kind} is a free function, because {why}: {remedy}"));
                return None;
            }
        }
    }
    let shape = format!(
        "a {kind} takes the context and one input: `async fn {}({}, input: Input) -> …`; use `()` or a struct \
         for none or several",
        sig.ident,
        kind.param(),
    );
    if let Some(variadic) = &sig.variadic {
        faults.add(variadic, shape);
        return None;
    }
    match types[..] {
        [ctx, input] => {
            check_context(kind, ctx, faults);
            check_stored("input", "take", input, faults);
            Some((ctx, input))
        }
        [_, _, ..] => {
            let extra: TokenStream = sig.inputs.pairs().skip(2).map(ToTokens::into_token_stream).collect();
            faults.add(extra, shape);
            None
        }
        _ => {
            faults.push(syn::Error::new(sig.paren_token.span.join(), shape));
            None
        }
    }
}

/// The types of the output and of the error.
fn given<'a>(kind: Kind, sig: &'a Signature, faults: &mut Faults) -> Option<(&'a Type, &'a Type)> {
    let wanted = format!(
        "a {kind} returns Result<Output, Error>, with both types written out, so that both can be stored"
    );
    let returned = match &sig.output {
        ReturnType::Type(_, returned) => returned,
        ReturnType::Default => {
            faults.push(syn::Error::new(
                sig.paren_token.span.close(),
                format!("{wanted}: add ` -> Result<(), Error>`"),
            ));
            return None;
        }
    };
    match result_arguments(returned).as_deref() {
        Some([output, error]) => {
            check_stored("output", "return", output, faults);
            check_stored("error", "return", error, faults);
            Some((output, error))
        }
        Some([_]) => {
            let remedy = "this `Result` does not show its error; `outlast::AnyError` is one that `?` makes of any other";
            faults.add(returned, format!("{wanted}: {remedy}"));
            None
        }
        _ => {
            faults.add(returned, wanted);
            None
        }
    }
}

/// The arguments of a type called `Result`, however its path is written.
fn result_arguments(ty: &Type) -> Option<Vec<&Type>> {
    match ty {
        // What came through `macro_rules!` stands in an invisible group.
        Type::Group(group) => result_arguments(&group.elem),
        Type::Paren(paren) => result_arguments(&paren.elem),
        Type::Path(path) => {
            let last = path.path.segments.last().filter(|last| last.ident == "Result")?;
            let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
            let types = arguments.args.iter().map(|argument| match argument {
                GenericArgument::Type(ty) => Some(ty),
                _ => None,
            });
            types.collect()
        }
        _ => None,
    }
}

fn check_context(kind: Kind, ctx: &Type, faults: &mut Faults) {
    if contains(ctx, "&") {
        faults.add(ctx, format!("take the context by value (`{}`): it is cheap to clone", kind.param()));
    } else {
        check_named(ctx, faults);
    }
}

/// Refuses what cannot be stored whatever traits it has.
fn check_stored(role: &str, verb: &str, ty: &Type, faults: &mut Faults) {
    if contains(ty, "&") {
        let owned = if contains(ty, "str") { ", as a `String`" } else { "" };
        faults.add(ty, format!("the {role} is stored: {verb} it by value{owned}"));
    } else {
        check_named(ty, faults);
    }
}

fn check_named(ty: &Type, faults: &mut Faults) {
    if contains(ty, "impl") {
        faults.add(
            ty,
            "what is stored needs a type that can be read back: write the type instead of `impl Trait`",
        );
    } else if contains(ty, "Self") {
        faults.add(ty, "write the type instead of `Self`: a free function has none");
    }
}

/// Whether `word` stands anywhere in `ty`.
fn contains(ty: &Type, word: &str) -> bool {
    fn any(tokens: TokenStream, word: &str) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Group(group) => any(group.stream(), word),
            TokenTree::Ident(ident) => ident == word,
            TokenTree::Punct(punct) => word.len() == 1 && word.starts_with(punct.as_char()),
            TokenTree::Literal(_) => false,
        })
    }
    any(ty.to_token_stream(), word)
}
