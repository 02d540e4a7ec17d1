//! What live updates tell: once for all who hear everything, and in part for whoever is bound to queues.

use std::borrow::Cow;

use outlast_store::RunRecord;
use serde_json::{Value, json};

use super::access::Caller;

/// Something that changed.
#[derive(Debug)]
pub(super) struct News {
    /// Whose it is; `None` where it is everybody's.
    tenant: Option<String>,
    /// All of it.
    whole: String,
    about: About,
}

/// Which queues it is about.
#[derive(Debug)]
enum About {
    /// One: all of it.
    Queue(String),
    /// Several: what changed in which, and which are gone.
    Queues { changed: Vec<(String, Value)>, gone: Option<Vec<String>> },
}

impl News {
    /// About one run.
    pub(super) fn of_run(run: &RunRecord, told: Value) -> News {
        let about = About::Queue(run.queue.clone());
        News { tenant: Some(run.tenant.clone()), whole: told.to_string(), about }
    }

    /// About runs of a tenant, each with its queue.
    pub(super) fn of_runs(tenant: String, changed: Vec<(String, Value)>) -> News {
        let about = About::Queues { changed, gone: None };
        News { tenant: Some(tenant), whole: about.told(|_| true), about }
    }

    /// About queues.
    pub(super) fn of_queues(changed: Vec<(String, Value)>, gone: Vec<String>) -> News {
        let about = About::Queues { changed, gone: Some(gone) };
        News { tenant: None, whole: about.told(|_| true), about }
    }

    /// What of it this one may hear; `None`: nothing.
    pub(super) fn told_to(&self, caller: &Caller) -> Option<Cow<'_, str>> {
        if !self.tenant.as_deref().is_none_or(|tenant| caller.sees(tenant)) {
            return None;
        }
        match &self.about {
            _ if caller.queues.is_none() => Some(Cow::Borrowed(&self.whole)),
            About::Queue(queue) => caller.sees_queue(queue).then_some(Cow::Borrowed(&self.whole)),
            about => {
                let sees = |queue: &str| caller.sees_queue(queue);
                about.concerns(sees).then(|| Cow::Owned(about.told(sees)))
            }
        }
    }
}

impl About {
    fn concerns(&self, sees: impl Fn(&str) -> bool) -> bool {
        match self {
            About::Queue(queue) => sees(queue),
            About::Queues { changed, gone } => {
                let gone = gone.iter().flatten().map(String::as_str);
                changed.iter().map(|(queue, _)| queue.as_str()).chain(gone).any(sees)
            }
        }
    }

    /// What is told of those queues.
    fn told(&self, sees: impl Fn(&str) -> bool) -> String {
        let About::Queues { changed, gone } = self else { return String::new() };
        let changed: Vec<&Value> =
            changed.iter().filter(|(queue, _)| sees(queue)).map(|(_, told)| told).collect();
        let gone = gone.as_ref().map(|gone| gone.iter().filter(|queue| sees(queue)).collect::<Vec<_>>());
        match gone {
            Some(gone) => json!({ "changed": changed, "gone": gone }).to_string(),
            None => json!({ "changed": changed }).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bound::Queues;
    use super::*;

    #[test]
    fn whoever_is_bound_to_a_queue_hears_what_is_of_it_and_nothing_of_the_rest() {
        let mail = Caller { queues: Queues::kept(vec!["mail".into()]), ..Caller::local() };
        let acme = Caller { tenant: Some("acme".into()), ..mail.clone() };
        let news = News::of_runs(
            "globex".into(),
            vec![("mail".into(), json!({ "id": 1 })), ("default".into(), json!({ "id": 2 }))],
        );
        assert_eq!(news.told_to(&Caller::local()).unwrap(), r#"{"changed":[{"id":1},{"id":2}]}"#);
        assert_eq!(news.told_to(&mail).unwrap(), r#"{"changed":[{"id":1}]}"#);
        assert_eq!(news.told_to(&acme), None);
        assert_eq!(News::of_runs("a".into(), vec![("default".into(), json!(2))]).told_to(&mail), None);

        let news = News::of_queues(vec![("default".into(), json!(2))], vec!["old".into(), "mail".into()]);
        assert_eq!(news.told_to(&mail).unwrap(), r#"{"changed":[],"gone":["mail"]}"#);
        assert_eq!(News::of_queues(vec![], vec!["old".into()]).told_to(&mail), None);
    }
}
