//! Reading.

use std::time::Duration;

use outlast_core::{RunId, Status};
use outlast_store::*;

use crate::stories;
use crate::world::*;

async fn listed(world: &World, filter: Filter) -> Vec<RunId> {
    let page = world.store.list(&filter, None, 100).await.unwrap();
    assert_eq!(page.next, None);
    page.runs.iter().map(|run| run.record.id).collect()
}

stories! {
    async fn a_long_journal_is_paged_in(world: World) {
        let (long, short) = (world.running().await, world.running().await);
        let entries: Vec<_> = (1..=1_001).map(|pos| entry(pos, "a")).collect();
        world.commit(records(&long, &entries[..1_000])).await;
        assert!(!world.store.load(&[long.id]).await.unwrap()[0].more);
        world.commit(records(&long, &entries[1_000..])).await;
        world.commit(records(&short, &entries[..1])).await;

        let nobody = world.greet().id;
        let loaded = world.store.load(&[short.id, nobody, long.id]).await.unwrap();
        let pages: Vec<_> = loaded.iter().map(|l| (l.record.id, l.entries.len(), l.more)).collect();
        assert_eq!(pages, [(short.id, 1, false), (long.id, 1_000, true)]);
        let rest = world.store.journal(long.id, 1_000, 10).await.unwrap();
        assert_eq!((rest.len(), rest[0].pos), (1, 1_001));
    }

    async fn a_list_is_newest_first_page_by_page(world: World) {
        let mut all = Vec::new();
        for n in 0..7 {
            // Some are started at the same moment.
            if n % 2 == 0 {
                world.pass(Duration::from_millis(1));
            }
            all.push((world.now(), world.start(&world.greet()).await));
        }
        all.sort();
        let newest: Vec<RunId> = all.iter().rev().map(|(_, run)| *run).collect();
        let (mut after, mut seen, mut pages) = (None, Vec::new(), 0);
        loop {
            let page = world.store.list(&Filter::default(), after, 3).await.unwrap();
            pages += 1;
            seen.extend(page.runs.iter().map(|run| run.record.id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!((seen, pages), (newest, 3));
    }

    async fn a_list_shows_what_fits_its_filter(world: World) {
        let tags =
            |city: &str| vec![("city".to_owned(), city.to_owned()), ("kind".to_owned(), "x".to_owned())];
        let first = world.start(&NewRun { tags: tags("Ulm"), ..world.greet() }).await;
        world.pass(Duration::from_secs(1));
        let mail =
            NewRun { definition: "mail".into(), queue: "mail".into(), tags: tags("Bonn"), ..world.greet() };
        let parent = Some(Parent { run: first, op: None });
        let second = world.start(&NewRun { tenant: "eu".into(), parent, ..mail }).await;
        let keyed = world.keyed("k");
        let third = world.start(&keyed).await;
        let run = world.claim_of(third).await;
        world.commit(ends(&run, completed("1"))).await;

        let text = |text: &str| Some(text.to_owned());
        let filter = Filter::default;
        assert_eq!(listed(&world, filter()).await.len(), 3);
        assert_eq!(listed(&world, Filter { tenant: text("eu"), ..filter() }).await, [second]);
        assert_eq!(listed(&world, Filter { definition: text("mail"), ..filter() }).await, [second]);
        assert_eq!(listed(&world, Filter { queue: text("mail"), ..filter() }).await, [second]);
        assert_eq!(listed(&world, Filter { parent: Some(first), ..filter() }).await, [second]);
        assert_eq!(listed(&world, Filter { key: text("k"), ..filter() }).await, [third]);
        let whole = Filter { tenant: text(""), definition: text("greet"), key: text("k"), ..filter() };
        assert_eq!(listed(&world, whole).await, [third]);
        assert_eq!(listed(&world, Filter { tags: tags("Ulm"), ..filter() }).await, [first]);
        assert_eq!(listed(&world, Filter { tags: tags("Ulm")[1..].to_vec(), ..filter() }).await.len(), 2);
        assert_eq!(listed(&world, Filter { since: Some(world.now()), ..filter() }).await.len(), 2);
        assert_eq!(listed(&world, Filter { until: Some(world.now()), ..filter() }).await, [first]);
        let in_status = |statuses: &[Status]| Filter { statuses: statuses.to_vec(), ..filter() };
        assert_eq!(listed(&world, in_status(&[Status::Completed])).await, [third]);
        assert_eq!(listed(&world, in_status(&[Status::Failed, Status::Completed])).await, [third]);
        assert_eq!(listed(&world, in_status(&[Status::Ready, Status::Running])).await, [second, first]);
        assert!(listed(&world, in_status(&[Status::Blocked])).await.is_empty());
        let quoted = Filter { tenant: text("'; drop table outlast_runs; --"), ..filter() };
        assert!(listed(&world, quoted).await.is_empty());
    }

    async fn ends_and_due_times_are_found_in_every_shard(world: World) {
        assert_eq!(world.store.next_due().await.unwrap(), None);
        let mut ended = Vec::new();
        for n in 0..4 {
            let run = world.running().await;
            world.commit(ends(&run, completed(&n.to_string()))).await;
            ended.push(run.id);
        }
        let open = world.start(&world.greet()).await;
        let mut found = world.store.ended(&[&ended[..], &[open]].concat()).await.unwrap();
        found.sort_by_key(|(run, _)| ended.iter().position(|id| id == run));
        let outputs: Vec<_> = found.iter().map(|(_, end)| end.output.clone().unwrap()).collect();
        assert_eq!(outputs, ["0", "1", "2", "3"].map(json));
        assert_eq!(world.store.next_due().await.unwrap(), Some(world.now()));
        assert_eq!(world.store.now().await.unwrap(), world.now());
        assert_eq!(world.store.find(&Address::Run(open)).await.unwrap(), Some(open));
        assert_eq!(world.store.find(&Address::Run(world.greet().id)).await.unwrap(), None);
    }
}
