//! Faults found in the user's code, gathered so that one build shows them all.

use proc_macro2::TokenStream;
use quote::ToTokens;

#[derive(Default)]
pub(crate) struct Faults(Option<syn::Error>);

impl Faults {
    /// Adds a fault, shown under all of `place`.
    pub(crate) fn add(&mut self, place: impl ToTokens, message: impl std::fmt::Display) {
        self.push(syn::Error::new_spanned(place, message));
    }

    pub(crate) fn push(&mut self, fault: syn::Error) {
        match &mut self.0 {
            Some(faults) => faults.combine(fault),
            None => self.0 = Some(fault),
        }
    }

    pub(crate) fn extend(&mut self, more: Faults) {
        for fault in more.0.into_iter().flatten() {
            self.push(fault);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The value, or nothing and one fault more.
    pub(crate) fn keep<T>(&mut self, value: syn::Result<T>) -> Option<T> {
        value.map_err(|fault| self.push(fault)).ok()
    }

    /// The faults as `compile_error!`s.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0.map(syn::Error::into_compile_error).unwrap_or_default()
    }

    #[cfg(test)]
    pub(crate) fn messages(self) -> Vec<String> {
        self.0.into_iter().flatten().map(|fault| fault.to_string()).collect()
    }
}
