//! Whoever is bound to queues: what of everything is within their reach.
//!
//! A route lets them in only where the table says that its handler keeps to their queues (`by_queue`), so that one that
//! somebody adds is shut to them until then. What handlers need for it is here.

use outlast::{Error, Filter, RunView};
use outlast_core::{check_count, check_named};

use super::access::Caller;
use super::code::Code;
use super::problem::Problem;
use super::route::Route;

/// The most queues of one token: each is looked up by itself.
const MOST: usize = 20;
/// What bulks are runs of.
const BULK: &str = "outlast.bulk";
/// The queue of bulks: whoever reached it would reach what bulks do everywhere.
const BULKS: &str = "outlast";

/// Queues to which somebody is bound: one at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Queues(Vec<String>);

impl Queues {
    /// Those that somebody shall be bound to, in order and each once; a refusal where that cannot be.
    pub(crate) fn new(mut names: Vec<String>) -> Result<Queues, Error> {
        if names.is_empty() {
            // Whoever named none did not mean all of them.
            return Err(Error::invalid("queues", "[]", "at least one, or left away where all are meant"));
        }
        check_count("queues of a token", names.len(), MOST)?;
        for name in &names {
            check_named("queue", name)?;
            if name == BULKS {
                return Err(Error::invalid("queue", name, "one of yours: in this one bulks are done"));
            }
        }
        names.sort();
        names.dedup();
        Ok(Queues(names))
    }

    /// Those that were kept; `None` where there is none left, which opens nothing.
    pub(crate) fn kept(names: Vec<String>) -> Option<Queues> {
        Queues::new(names).ok()
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.0
    }

    /// For people: `mail`, `mail and reports`.
    fn told(&self) -> String {
        match &self.0[..] {
            [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
            names => names.concat(),
        }
    }
}

impl Caller {
    /// Whether something of this queue concerns them.
    pub(crate) fn sees_queue(&self, queue: &str) -> bool {
        self.queues.as_ref().is_none_or(|own| own.0.iter().any(|name| name == queue))
    }

    /// Whether they may know of this run.
    pub(crate) fn sees_run(&self, view: &RunView) -> bool {
        self.sees(&view.record.tenant) && self.sees_queue(&view.record.queue)
    }

    /// Refuses a queue that they name and that is not theirs.
    pub(crate) fn may_use(&self, queue: &str) -> Result<(), Problem> {
        match &self.queues {
            Some(own) if !self.sees_queue(queue) => {
                let (queue, own) = (outlast_core::shorten(queue, 200), own.told());
                let detail = format!(
                    "this token is bound to {own}: it reaches nothing in the queue {queue:?}. A token that is bound to \
                     it, or to none, does"
                );
                Err(Problem::new(Code::FORBIDDEN, detail))
            }
            _ => Ok(()),
        }
    }

    /// What of a filter is within their reach.
    pub(crate) fn within(&self, filter: Filter) -> Result<Filter, Problem> {
        if let Some(queue) = &filter.queue {
            self.may_use(queue)?;
        }
        // They are in a queue of their own: an empty list would say that there is none.
        if filter.definition.as_deref() == Some(BULK) {
            self.may_use(BULKS)?;
        }
        Ok(Filter { tenant: self.tenant.clone(), queues: self.queue_names(), ..filter })
    }

    /// The queues that are summed up for them one by one: the one that they name, their own, or all at once (`None`).
    pub(crate) fn summed(&self, named: Option<&str>) -> Result<Vec<Option<String>>, Problem> {
        match (named, &self.queues) {
            (Some(queue), _) => self.may_use(queue).map(|()| vec![Some(queue.to_owned())]),
            (None, Some(own)) => Ok(own.0.iter().cloned().map(Some).collect()),
            (None, None) => Ok(vec![None]),
        }
    }

    /// The queues to which they are bound; none where they are bound to none.
    pub(crate) fn queue_names(&self) -> Vec<String> {
        self.queues.as_ref().map(|own| own.0.clone()).unwrap_or_default()
    }
}

/// Refuses whoever is bound to queues what is about more than those.
pub(super) fn allow(route: &Route, caller: &Caller) -> Result<(), Problem> {
    match &caller.queues {
        Some(own) if !route.by_queue => {
            let (action, own) = (route.action, own.told());
            let detail = format!(
                "{action} is about more than single queues, and this token is bound to {own}: it takes one that is \
                 bound to none (`outlast token create` without --queue)"
            );
            Err(Problem::new(Code::FORBIDDEN, detail))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(queues: &[&str]) -> Caller {
        let queues = Queues::new(queues.iter().map(|name| (*name).to_owned()).collect()).unwrap();
        Caller { queues: Some(queues), ..Caller::local() }
    }

    #[test]
    fn whoever_is_bound_reaches_their_queues_and_no_other() {
        let caller = bound(&["reports", "mail", "mail"]);
        assert!(caller.sees_queue("mail") && caller.sees_queue("reports"));
        assert!(!caller.sees_queue("default") && !caller.sees_queue("") && !caller.sees_queue("Mail"));
        let refused = caller.may_use("billing").unwrap_err().detail;
        assert!(refused.contains("mail and reports") && refused.contains("\"billing\""), "{refused}");
        let filter = caller.within(Filter::default()).unwrap();
        assert_eq!(filter.queues, ["mail", "reports"]);
        let elsewhere = Filter { queue: Some("billing".into()), ..Filter::default() };
        assert!(caller.within(elsewhere.clone()).is_err());
        assert_eq!(Caller::local().within(elsewhere.clone()).unwrap(), elsewhere);
        assert_eq!(caller.summed(None).unwrap(), [Some("mail".to_owned()), Some("reports".to_owned())]);
        assert!(caller.summed(Some("billing")).is_err());
        assert_eq!(Caller::local().summed(None).unwrap(), [None]);
    }

    #[test]
    fn nobody_is_bound_to_nothing_to_what_is_no_name_or_to_the_queue_of_bulks() {
        let too_many: Vec<String> = (0..=MOST).map(|n| format!("q{n}")).collect();
        for wrong in [vec![], vec!["".into()], vec!["mail".into(), "..".into()], vec![BULKS.into()], too_many]
        {
            assert!(Queues::new(wrong.clone()).is_err(), "{wrong:?}");
            assert_eq!(Queues::kept(wrong), None);
        }
    }
}
