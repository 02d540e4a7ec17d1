//! From the user's function to the function that gives its definition: what the two attributes do.
//!
//! ```text
//! #[outlast::workflow(queue = "orders")]
//! pub async fn checkout(ctx: Ctx, order: Order) -> Result<Receipt, CheckoutError> { … }
//! ```
//!
//! becomes
//!
//! ```text
//! pub fn checkout() -> ::outlast::Workflow<Order, Receipt, CheckoutError> {
//!     struct __Code;
//!     impl __Code {
//!         async fn checkout(ctx: Ctx, order: Order) -> Result<Receipt, CheckoutError> { … }
//!     }
//!     {
//!         fn definition<I: Stored, O: Stored, E: StoredError>(…) -> ::outlast::Workflow<I, O, E> { … }
//!         trait __Context { fn of(ctx: ::outlast::Ctx) -> Self; }
//!         impl __Context for ::outlast::Ctx { … }
//!         definition::<Order, Receipt, CheckoutError>(
//!             ::outlast::Options { queue: "orders", ..::outlast::Options::new("checkout") },
//!             |ctx, input| ::outlast::__private::Box::pin(__Code::checkout(<Ctx as __Context>::of(ctx), input)),
//!         )
//!     }
//! }
//! ```
//!
//! A function, because a constant of that name would forbid every variable of that name where it is in scope.
//! The user's own keeps its name, for backtraces and for other attributes, but as an associated one: so
//! `checkout` means the definition inside the body too, and a workflow can start itself.
//!
//! `definition` only calls `from_parts`, and `__Context::of` only returns what it is given. They are there for
//! the compiler's messages: a type that cannot be stored, or a context that is none, is shown where the user
//! wrote it. They stand in a block of their own, out of sight of the user's code.

use std::fmt;

use proc_macro2::{Group, Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Signature, Visibility};

use crate::digest;
use crate::faults::Faults;
use crate::options::Options;
use crate::signature::{self, Boundary};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Workflow,
    Job,
}

/// The code for the compiler, and the faults, which the compiler shows as its own.
pub(crate) struct Expanded {
    code: TokenStream,
    faults: Faults,
}

pub(crate) fn expand(kind: Kind, args: TokenStream, item: TokenStream) -> Expanded {
    let mut faults = Faults::default();
    let function = (|input: ParseStream<'_>| Function::parse(kind, input)).parse2(item.clone());
    let Some(function) = faults.keep(function) else { return Expanded { code: item, faults } };
    let options = Options::read(kind, &function.sig.ident, args, &mut faults);
    function.check_attributes(&mut faults);
    let code = match signature::read(kind, &function.sig, &mut faults) {
        // Wrong options do not keep the definition from being used: no second fault where it is.
        Some(boundary) => definition(kind, &function, &boundary, options),
        // Without its types there is no definition. The function stays, so that editors know its names.
        None => item,
    };
    Expanded { code, faults }
}

impl Expanded {
    pub(crate) fn into_tokens(self) -> TokenStream {
        let mut tokens = self.faults.into_tokens();
        tokens.extend(self.code);
        tokens
    }
}

/// An `async fn`, its body unread: what is in there is the compiler's business.
struct Function {
    attrs: Vec<Attribute>,
    vis: Visibility,
    sig: Signature,
    body: Group,
}

impl Function {
    fn parse(kind: Kind, input: ParseStream<'_>) -> syn::Result<Function> {
        let remedy = format!("`#[outlast::{kind}]` goes on an `async fn` with a body");
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let wrong = input.error(&remedy);
        let sig = input.parse().map_err(|_| wrong)?;
        let body = input.parse().map_err(|_| input.error(&remedy))?;
        Ok(Function { attrs, vis, sig, body })
    }

    fn check_attributes(&self, faults: &mut Faults) {
        let ours = |attr: &&Attribute| {
            attr.path().segments.last().is_some_and(|last| last.ident == "workflow" || last.ident == "job")
        };
        if let Some(second) = self.attrs.iter().find(ours) {
            faults.add(second, "a function is one workflow or one job: keep one of the two attributes");
        }
    }
}

/// Attributes that say something of the item from outside; all others are about the function's code.
const OUTSIDE: [&str; 8] = ["allow", "cfg", "deny", "deprecated", "doc", "expect", "forbid", "warn"];

fn definition(kind: Kind, function: &Function, types: &Boundary<'_>, options: Options) -> TokenStream {
    let Function { attrs, vis, sig, body } = function;
    let Boundary { ctx, input, output, error } = types;
    let (outside, inside): (Vec<_>, Vec<_>) = attrs.iter().partition(|attr| {
        attr.path().get_ident().is_some_and(|name| OUTSIDE.iter().any(|known| name == known))
    });
    let name = &sig.ident;
    let (definition, context) = (kind.definition(), kind.context());
    let wrong_context = format!("`{{Self}}` is not the context of a {kind}");
    let right_context = format!("write `{}` here", kind.context_name());
    let options = options.into_tokens();
    let signature = digest::signature(quote!(#sig #body));
    // What the compiler has to say about the future, it shall say at the function's name.
    let handler = quote_spanned! { Span::mixed_site().located_at(name.span()) =>
        |ctx, input| ::outlast::__private::Box::pin(__Code::#name(<#ctx as __Context>::of(ctx), input))
    };
    quote! {
        #(#outside)*
        #vis fn #name() -> #definition<#input, #output, #error> {
            struct __Code;
            impl __Code {
                #(#inside)*
                #sig #body
            }
            {
                fn definition<I: ::outlast::Stored, O: ::outlast::Stored, E: ::outlast::StoredError>(
                    options: ::outlast::Options,
                    handler: fn(#context, I) -> ::core::pin::Pin<::outlast::__private::Box<
                        dyn ::core::future::Future<Output = ::core::result::Result<O, E>> + ::core::marker::Send,
                    >>,
                ) -> #definition<I, O, E> {
                    #definition::from_parts(options, handler).signed(#signature)
                }
                #[diagnostic::on_unimplemented(message = #wrong_context, label = #right_context)]
                trait __Context {
                    fn of(ctx: #context) -> Self;
                }
                impl __Context for #context {
                    fn of(ctx: #context) -> Self {
                        ctx
                    }
                }
                definition::<#input, #output, #error>(#options, #handler)
            }
        }
    }
}

impl Kind {
    fn definition(self) -> TokenStream {
        match self {
            Kind::Workflow => quote!(::outlast::Workflow),
            Kind::Job => quote!(::outlast::Job),
        }
    }

    fn context(self) -> TokenStream {
        let name = Ident::new(self.context_name(), Span::call_site());
        quote!(::outlast::#name)
    }

    fn context_name(self) -> &'static str {
        match self {
            Kind::Workflow => "Ctx",
            Kind::Job => "JobCtx",
        }
    }

    /// The first parameter as it is usually written.
    pub(crate) fn param(self) -> &'static str {
        match self {
            Kind::Workflow => "ctx: Ctx",
            Kind::Job => "job: JobCtx",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Workflow => "workflow",
            Kind::Job => "job",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(kind: Kind, item: TokenStream) -> Vec<String> {
        expand(kind, quote!(), item).faults.messages()
    }

    #[test]
    fn a_function_becomes_one_that_gives_its_definition() {
        let item = quote! {
            /// Sells things.
            #[deprecated]
            #[tracing::instrument]
            pub(crate) async fn checkout(ctx: Ctx, order: Order) -> std::result::Result<Receipt, Sold> { work() }
        };
        let expanded = expand(Kind::Workflow, quote!(queue = "orders"), item);
        assert_eq!(expanded.faults.messages(), [""; 0]);

        let function: syn::ItemFn = syn::parse2(expanded.code).unwrap();
        assert_eq!(function.sig.ident, "checkout");
        assert_eq!(function.vis, syn::parse_quote!(pub(crate)));
        assert_eq!(function.sig.output, syn::parse_quote!(-> ::outlast::Workflow<Order, Receipt, Sold>));
        let outside: [Attribute; 2] =
            [syn::parse_quote!(#[doc = r" Sells things."]), syn::parse_quote!(#[deprecated])];
        assert_eq!(function.attrs, outside);
    }

    #[test]
    fn a_result_is_known_however_it_is_written() {
        for result in [
            quote!(Result<(), E>),
            quote!(core::result::Result<(), E>),
            quote!((::std::result::Result<(), E>)),
        ] {
            let item = quote!(async fn mail(job: JobCtx, to: String) -> #result { work() });
            assert_eq!(faults(Kind::Job, item), [""; 0]);
        }
    }

    #[test]
    fn what_cannot_be_a_workflow_is_told_why() {
        let cases = [
            (
                quote!(
                    struct Order {
                        id: u32,
                    }
                ),
                "goes on an `async fn` with a body",
            ),
            (quote!(impl Shop { async fn checkout(&self) {} }), "goes on an `async fn` with a body"),
            (
                quote!(
                    async fn f(ctx: Ctx, i: u8) -> Result<u8, E>;
                ),
                "goes on an `async fn` with a body",
            ),
            (
                quote!(
                    fn f(ctx: Ctx, i: u8) -> Result<u8, E> {}
                ),
                "so it is async: write `async fn`",
            ),
            (
                quote!(
                    const async fn f(ctx: Ctx, i: u8) -> Result<u8, E> {}
                ),
                "cannot be `const`",
            ),
            (
                quote!(
                    async unsafe fn f(ctx: Ctx, i: u8) -> Result<u8, E> {}
                ),
                "cannot be `unsafe`",
            ),
            (
                quote!(
                    async extern "C" fn f(ctx: Ctx, i: u8) -> Result<u8, E> {}
                ),
                "remove `extern`",
            ),
            (
                quote!(
                    async fn f<T>(ctx: Ctx, i: T) -> Result<u8, E> {}
                ),
                "cannot be generic",
            ),
            (
                quote!(
                    async fn f<'a>(ctx: Ctx, i: Cow<'a, str>) -> Result<u8, E> {}
                ),
                "cannot be generic",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, i: u8) -> Result<u8, E>
                    where
                        u8: Copy,
                    {
                    }
                ),
                "`where` clause",
            ),
            (
                quote!(
                    async fn f(self, i: u8) -> Result<u8, E> {}
                ),
                "a workflow is a free function",
            ),
            (
                quote!(
                    async fn f(&self, ctx: Ctx, i: u8) -> Result<u8, E> {}
                ),
                "a workflow is a free function",
            ),
            (
                quote!(
                    async fn f() -> Result<u8, E> {}
                ),
                "`async fn f(ctx: Ctx, input: Input) -> …`",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx) -> Result<u8, E> {}
                ),
                "takes the context and one input",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, a: u8, b: u8) -> Result<u8, E> {}
                ),
                "a struct for none or several",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, i: u8, ...) -> Result<u8, E> {}
                ),
                "takes the context and one input",
            ),
            (
                quote!(
                    async fn f(ctx: &Ctx, i: u8) -> Result<u8, E> {}
                ),
                "take the context by value",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, i: &str) -> Result<u8, E> {}
                ),
                "take it by value, as a `String`",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, i: Vec<&u8>) -> Result<u8, E> {}
                ),
                "the input is stored: take it by value",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, i: impl Into<u8>) -> Result<u8, E> {}
                ),
                "instead of `impl Trait`",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, i: u8) -> Result<impl Copy, E> {}
                ),
                "instead of `impl Trait`",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, i: u8) -> Result<&u8, E> {}
                ),
                "the output is stored: return it by value",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, i: u8) -> Result<u8, &'static str> {}
                ),
                "the error is stored",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, i: Self) -> Result<u8, E> {}
                ),
                "instead of `Self`",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, i: u8) {}
                ),
                "returns Result<Output, Error>, with both types written out",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, i: u8) -> u8 {}
                ),
                "with both types written out, so that both can be stored",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, i: u8) -> Option<u8> {}
                ),
                "with both types written out",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, i: u8) -> anyhow::Result<u8> {}
                ),
                "does not show its error",
            ),
            (
                quote!(
                    async fn f(ctx: Ctx, i: u8) -> io::Result {}
                ),
                "with both types written out",
            ),
            (
                quote!(
                    #[outlast::job]
                    async fn f(ctx: Ctx, i: u8) -> Result<u8, E> {}
                ),
                "one workflow or one job",
            ),
        ];
        for (item, expected) in cases {
            let said = faults(Kind::Workflow, item.clone());
            assert!(said.len() == 1 && said[0].contains(expected), "{item}: {said:?}");
        }
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let item = quote!(
            fn mail(to: &str) -> u8 {}
        );
        let expanded = expand(Kind::Job, quote!(attempts = 0), item);
        assert_eq!(expanded.faults.messages().len(), 4);
    }

    #[test]
    fn wrong_options_do_not_make_the_definition_unknown() {
        let item = quote!(
            async fn mail(job: JobCtx, to: String) -> Result<(), E> {}
        );
        let expanded = expand(Kind::Job, quote!(attempts = 0), item);
        assert!(syn::parse2::<syn::ItemFn>(expanded.code).is_ok());
    }
}
