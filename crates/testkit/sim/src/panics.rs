//! Panics of a schedule, wherever they are caught: a task keeps its own to itself, and a schedule in which something panicked
//! must not pass for a good one.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// What panicked on this thread, while somebody wants to know.
    static SEEN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Notes the panics of this thread from now on.
pub(crate) fn watch() {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            SEEN.with(|seen| {
                if let Ok(mut seen) = seen.try_borrow_mut() {
                    seen.iter_mut().for_each(|seen| seen.push(info.to_string()));
                }
            });
            before(info);
        }));
    });
    SEEN.with(|seen| *seen.borrow_mut() = Some(Vec::new()));
}

/// Those since then.
pub(crate) fn seen() -> Vec<String> {
    SEEN.with(|seen| seen.borrow_mut().take()).unwrap_or_default()
}
