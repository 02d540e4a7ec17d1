//! What the API keeps for itself: tokens, the audit log, and answers that are given once.

use std::time::Duration;

use bytes::Bytes;
use outlast_core::{QueueRules, Timestamp};
use outlast_store::{
    Access, Accessed, Address, AuditList, AuditNote, Control, Controlled, Filter, Purge, Purged, QueueChange,
    Reply, Reserve, TokenCard, holding,
};
use outlast_testkit::{World, store_test};
use uuid::Uuid;

use crate::{DAY, MINUTE};

pub(crate) fn token(id: u128, expires_at: Timestamp) -> TokenCard {
    TokenCard {
        id: Uuid::from_u128(id),
        hash: Bytes::from(vec![id as u8; 32]),
        subject: "ann".into(),
        role: "operator".into(),
        tenant: Some("acme".into()),
        queues: None,
        by: "root".into(),
        expires_at,
    }
}

pub(crate) fn note(id: u128, tenant: &str, target: &str) -> AuditNote {
    AuditNote {
        id: Uuid::from_u128(id),
        tenant: tenant.into(),
        actor: "ann".into(),
        token: Some(Uuid::from_u128(1)),
        action: "run.cancel".into(),
        target: target.into(),
        reason: Some("wrong address".into()),
        request: "req-1".into(),
        status: 200,
        ip: Some("::1".into()),
        before: Some(r#"{"status":"waiting"}"#.into()),
        after: None,
    }
}

pub(crate) fn reserve(holder: u128, key: &str, body: &str) -> Reserve {
    Reserve {
        holder: Uuid::from_u128(holder),
        actor: "ann".into(),
        key: key.into(),
        route: "POST /api/v1/runs".into(),
        body_hash: Bytes::from(body.to_owned()),
        seed: Uuid::from_u128(holder * 100),
        hold: MINUTE,
        keep: DAY,
    }
}

pub(crate) fn reply(holder: u128, body: &str) -> Access {
    let reply = Reply { status: 201, headers: "{}".into(), body: Bytes::from(body.to_owned()) };
    Access::Reply { holder: Uuid::from_u128(holder), reply }
}

async fn access(world: &World, ask: Access) -> Accessed {
    world.store().access(&ask).await.unwrap()
}

#[store_test]
async fn a_token_is_found_by_its_hash_until_it_is_revoked_or_over(world: World) {
    let now = world.now().await;
    let card = token(7, now + DAY);
    access(&world, Access::Token(card.clone())).await;
    let found = world.store().token(&card.hash).await.unwrap().unwrap();
    assert_eq!((&found.card, found.used_at), (&card, None));
    assert!(found.is_live(now) && !found.is_live(now + DAY));
    assert_eq!(world.store().token(b"another").await.unwrap(), None);

    access(&world, Access::Used { token: card.id }).await;
    let used = world.store().token(&card.hash).await.unwrap().unwrap().used_at.unwrap();
    world.pass(Duration::from_secs(59)).await;
    access(&world, Access::Used { token: card.id }).await;
    let again = world.store().token(&card.hash).await.unwrap().unwrap().used_at;
    assert_eq!(again, Some(used), "once a minute is enough");

    let Accessed::Token(Some(revoked)) = access(&world, Access::Revoke { token: card.id }).await else {
        panic!("it is there")
    };
    assert!(!revoked.is_live(now));
    assert_eq!(access(&world, Access::Revoke { token: Uuid::nil() }).await, Accessed::Token(None));
    assert_eq!(
        world.store().tokens().await.unwrap(),
        [world.store().token(&card.hash).await.unwrap().unwrap()]
    );
}

#[store_test]
async fn a_token_that_is_bound_to_queues_has_a_role_that_nobody_knows_without_them(world: World) {
    let queues = Some(vec!["mail".to_owned(), "reports \"x\"".to_owned()]);
    let card = TokenCard { queues, ..token(7, world.now().await + DAY) };
    access(&world, Access::Token(card.clone())).await;
    let look = async || world.store().token(&card.hash).await.unwrap().unwrap().card;
    assert_eq!(look().await, card);
    assert_eq!(world.store().tokens().await.unwrap()[0].card, card);
    // As a program sees it that knows nothing of queues.
    let kept = world.count("select count(*) from outlast.tokens where role = 'queues:operator'").await;
    assert_eq!(kept, 1);
    // What nobody can read binds it to nothing, and does not set it free.
    world.raw("update outlast.tokens set queues = 'mail'").await;
    assert_eq!((look().await.queues, look().await.role), (Some(Vec::new()), "operator".to_owned()));
    world.raw("update outlast.tokens set queues = null").await;
    assert_eq!((look().await.queues, look().await.role), (None, "queues:operator".to_owned()));
}

#[store_test]
async fn a_session_opens_what_its_token_does_until_it_is_left(world: World) {
    let card = token(7, world.now().await + DAY);
    access(&world, Access::Token(card.clone())).await;
    let hash = Bytes::from_static(b"cookie");
    let begin = Access::Session { hash: hash.clone(), token: card.id, idle: MINUTE * 10 };
    access(&world, begin.clone()).await;
    let look = async || world.store().session(&hash).await.unwrap();
    let found = look().await.unwrap();
    assert_eq!((&found.token.card, found.created_at), (&card, found.seen_at));
    assert_eq!(world.store().session(b"another").await.unwrap(), None);

    world.pass(MINUTE * 2).await;
    access(&world, Access::Seen { hash: hash.clone() }).await;
    let seen = look().await.unwrap();
    assert!(seen.seen_at > found.seen_at && seen.created_at == found.created_at);
    access(&world, Access::Revoke { token: card.id }).await;
    assert!(look().await.unwrap().token.revoked_at.is_some(), "it is the token that counts");

    access(&world, Access::Leave { hash: hash.clone() }).await;
    assert_eq!(look().await, None);
    // Whoever comes back after a while clears away what others left.
    access(&world, begin).await;
    world.pass(MINUTE * 11).await;
    let other = Bytes::from_static(b"other");
    access(&world, Access::Session { hash: other, token: card.id, idle: MINUTE * 10 }).await;
    assert_eq!(world.count("select count(*) from outlast.sessions").await, 1);
}

#[store_test]
async fn a_ticket_becomes_one_session_and_only_within_its_time(world: World) {
    let card = token(7, world.now().await + DAY);
    access(&world, Access::Token(card.clone())).await;
    let ticket = async |name: &'static [u8]| {
        let hash = Bytes::from_static(name);
        access(&world, Access::Session { hash: hash.clone(), token: card.id, idle: DAY }).await;
        hash
    };
    let redeem = async |ticket: &Bytes, cookie: &'static [u8]| {
        let hash = Bytes::from_static(cookie);
        match access(&world, Access::Redeem { ticket: ticket.clone(), hash, within: MINUTE * 60 }).await {
            Accessed::Token(found) => found.map(|token| token.card.id),
            other => panic!("{other:?}"),
        }
    };
    let first = ticket(b"first").await;
    assert_eq!(redeem(&first, b"browser").await, Some(card.id));
    assert_eq!(redeem(&first, b"browser").await, Some(card.id), "the reply to the first may have been lost");
    assert_eq!(redeem(&first, b"somebody else").await, None);
    assert_eq!(world.store().session(b"first").await.unwrap(), None);
    assert_eq!(world.store().session(b"browser").await.unwrap().unwrap().token.card, card);

    let late = ticket(b"late").await;
    world.pass(MINUTE * 61).await;
    assert_eq!(redeem(&late, b"too late").await, None);
}

#[store_test]
async fn old_lines_of_the_audit_log_are_forgotten_the_oldest_first(world: World) {
    for id in 1..=3 {
        access(&world, Access::Note(note(id, "a", "x"))).await;
        world.pass(MINUTE).await;
    }
    let forget = async |keep: Duration, limit: u32| access(&world, Access::Forget { keep, limit }).await;
    assert_eq!(forget(MINUTE * 10, 10).await, Accessed::Forgotten(0));
    assert_eq!(forget(Duration::from_secs(90), 1).await, Accessed::Forgotten(1));
    assert_eq!(forget(Duration::from_secs(90), 10).await, Accessed::Forgotten(1));
    let left = world.store().audit(&AuditList { limit: 10, ..AuditList::default() }).await.unwrap();
    assert_eq!(left.iter().map(|line| line.note.id.as_u128()).collect::<Vec<_>>(), [3]);
}

#[store_test]
async fn the_first_key_stays(world: World) {
    assert_eq!(access(&world, Access::Key("one".into())).await, Accessed::Key("one".into()));
    assert_eq!(access(&world, Access::Key("two".into())).await, Accessed::Key("one".into()));
}

#[store_test]
async fn the_audit_log_is_read_from_its_end_by_tenant_and_target(world: World) {
    for (id, tenant, target) in [(1, "a", "x"), (2, "b", "x"), (3, "a", "y")] {
        access(&world, Access::Note(note(id, tenant, target))).await;
        world.pass(MINUTE).await;
    }
    let read = async |ask: AuditList| {
        let lines = world.store().audit(&AuditList { limit: ask.limit.max(1), ..ask }).await.unwrap();
        lines.into_iter().map(|line| (line.note.id.as_u128(), line.at)).collect::<Vec<_>>()
    };
    let ids = |lines: &[(u128, Timestamp)]| lines.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    let all = AuditList { limit: 10, ..AuditList::default() };
    let lines = read(all.clone()).await;
    assert_eq!(ids(&lines), [3, 2, 1]);
    let before = Some((lines[0].1, Uuid::from_u128(lines[0].0)));
    assert_eq!(ids(&read(AuditList { before, limit: 1, ..AuditList::default() }).await), [2]);
    assert_eq!(ids(&read(AuditList { tenant: Some("a".into()), ..all.clone() }).await), [3, 1]);
    assert_eq!(ids(&read(AuditList { target: Some("x".into()), ..all.clone() }).await), [2, 1]);
    // A schedule may be called like a queue, and one kind as another begins.
    let later = [("queue.pause", 4), ("queues.pause", 5), ("schedule.pause", 6), ("queue.resume", 7)];
    for (action, id) in later {
        access(&world, Access::Note(AuditNote { action: action.into(), ..note(id, "a", "mail") })).await;
        world.pass(MINUTE).await;
    }
    let kind = Some("queue".to_owned());
    let target = Some("mail".to_owned());
    assert_eq!(ids(&read(AuditList { target, kind: kind.clone(), ..all.clone() }).await), [7, 4]);
    assert_eq!(ids(&read(AuditList { kind, ..all }).await), [7, 4]);
}

#[store_test]
async fn a_request_is_answered_by_one_and_its_answer_kept(world: World) {
    let seed = Uuid::from_u128(100);
    let ours = access(&world, Access::Reserve(reserve(1, "k", "body"))).await;
    assert_eq!(ours, Accessed::Reserved { seed, changed: None });
    let theirs = access(&world, Access::Reserve(reserve(2, "k", "body"))).await;
    assert!(matches!(theirs, Accessed::Busy { .. }), "{theirs:?}");
    let other = access(&world, Access::Reserve(reserve(2, "k", "another body"))).await;
    assert_eq!(other, Accessed::Other);

    access(&world, reply(2, "a stranger's")).await;
    access(&world, reply(1, "ours")).await;
    access(&world, reply(1, "ours, later")).await;
    let told = access(&world, Access::Reserve(reserve(2, "k", "body"))).await;
    let Accessed::Replied(told) = told else { panic!("{told:?}") };
    assert_eq!((told.status, &told.body[..]), (201, &b"ours"[..]));

    world.pass(DAY + MINUTE).await;
    let anew = access(&world, Access::Reserve(reserve(3, "k", "another body"))).await;
    assert_eq!(
        anew,
        Accessed::Reserved { seed: Uuid::from_u128(300), changed: None },
        "a day later it is forgotten"
    );
}

#[store_test]
async fn whoever_takes_a_request_over_makes_the_same_of_it(world: World) {
    access(&world, Access::Reserve(reserve(1, "k", "body"))).await;
    world.pass(MINUTE * 2).await;
    let taken = access(&world, Access::Reserve(reserve(2, "k", "body"))).await;
    assert_eq!(taken, Accessed::Reserved { seed: Uuid::from_u128(100), changed: None });
    access(&world, reply(1, "too late")).await;
    access(&world, Access::Release { holder: Uuid::from_u128(2) }).await;
    let anew = access(&world, Access::Reserve(reserve(3, "k", "body"))).await;
    assert_eq!(
        anew,
        Accessed::Reserved { seed: Uuid::from_u128(300), changed: None },
        "given back, it is anybody's"
    );
}

#[store_test]
async fn whoever_says_that_they_are_at_it_keeps_the_right_to_answer(world: World) {
    access(&world, Access::Reserve(reserve(1, "k", "body"))).await;
    for _ in 0..3 {
        world.pass(MINUTE / 2).await;
        access(&world, Access::Extend { holder: Uuid::from_u128(1), hold: MINUTE }).await;
        // A stranger extends nothing.
        access(&world, Access::Extend { holder: Uuid::from_u128(9), hold: MINUTE * 9 }).await;
    }
    let busy = access(&world, Access::Reserve(reserve(2, "k", "body"))).await;
    assert!(matches!(busy, Accessed::Busy { .. }), "{busy:?}");
    world.pass(MINUTE * 2).await;
    let taken = access(&world, Access::Reserve(reserve(2, "k", "body"))).await;
    assert_eq!(taken, Accessed::Reserved { seed: Uuid::from_u128(100), changed: None });
    // Who lost it takes nothing back.
    access(&world, Access::Extend { holder: Uuid::from_u128(1), hold: MINUTE * 9 }).await;
    access(&world, Access::Yield { holder: Uuid::from_u128(2) }).await;
    let taken = access(&world, Access::Reserve(reserve(3, "k", "body"))).await;
    assert!(matches!(taken, Accessed::Reserved { .. }), "{taken:?}");
}

#[store_test]
async fn what_may_have_been_done_is_given_on_at_once_with_its_seed(world: World) {
    access(&world, Access::Reserve(reserve(1, "k", "body"))).await;
    access(&world, Access::Yield { holder: Uuid::from_u128(2) }).await;
    let busy = access(&world, Access::Reserve(reserve(2, "k", "body"))).await;
    assert!(matches!(busy, Accessed::Busy { .. }), "a stranger gives nothing away: {busy:?}");
    access(&world, Access::Yield { holder: Uuid::from_u128(1) }).await;
    let taken = access(&world, Access::Reserve(reserve(2, "k", "body"))).await;
    assert_eq!(taken, Accessed::Reserved { seed: Uuid::from_u128(100), changed: None });
}

#[store_test]
async fn runs_are_counted_up_to_a_cap(world: World) {
    for city in ["Bern", "Bern", "Rome"] {
        world.start("greet").tag("city", city).await;
    }
    let count = async |filter: Filter, cap| world.store().count(&filter, cap).await.unwrap();
    assert_eq!(count(Filter::default(), 100).await, 3);
    assert_eq!(count(Filter::default(), 2).await, 2);
    let bern = Filter { tags: vec![("city".into(), "Bern".into())], ..Filter::default() };
    assert_eq!(count(Filter { oldest_first: true, ..bern.clone() }, 100).await, 2);
    assert_eq!(count(Filter { definition: Some("greet".into()), ..bern.clone() }, 100).await, 2);
    let open = Filter { statuses: vec![outlast_core::Status::Ready], ..bern };
    assert_eq!(count(open, 100).await, 2);
}

#[store_test]
async fn one_run_is_purged_once_it_has_ended(world: World) {
    let purge = async |run| match world.control(&Control::Purge(Purge::one(run))).await {
        Controlled::Purged(Purged { runs, more, .. }) => (runs, more),
        other => panic!("{other:?}"),
    };
    let other = world.start("greet").held_by("node").await;
    let turn = world.start("greet").held_by("node").await;
    assert_eq!(purge(turn.run).await, (0, false), "it has not ended");
    let (other, run) = (other.run, turn.run);
    turn.completed("done").await;
    world.pass(MINUTE).await;
    assert_eq!(purge(run).await, (1, false));
    assert_eq!(world.store().run(run).await.unwrap(), None);
    assert!(world.store().run(other).await.unwrap().is_some());
}

#[store_test]
async fn rules_that_were_meant_for_an_earlier_queue_change_nothing(world: World) {
    let rules = |limit| QueueRules { limit: Some(limit), ..QueueRules::default() };
    let at = |changes, limit| QueueChange::RulesAt { changes, rules: Some(rules(limit)) };
    let first = world.change_queue("mail", at(0, 1)).await;
    assert_eq!(first.rules, rules(1));
    let second = world.change_queue("mail", at(first.changes, 2)).await;
    assert_eq!(second.rules, rules(2));
    assert!(second.changes > first.changes);
    let late = world.change_queue("mail", at(first.changes, 3)).await;
    assert_eq!((late.rules, late.changes), (rules(2), second.changes));
}

#[store_test]
async fn what_was_done_for_a_request_is_known_to_whoever_takes_it_over(world: World) {
    let run = world.start("greet").await.id;
    let cancel = Control::Cancel { run: Address::Run(run), reason: "enough".into() };
    let hand = |holder: u128| Uuid::from_u128(holder);
    let control = async |holder: u128| holding(hand(holder), world.store().control(&cancel)).await;
    assert!(control(1).await.is_err(), "nobody has such a request");
    assert_eq!(world.status(run).await, outlast_core::Status::Ready);

    access(&world, Access::Reserve(reserve(1, "k", "body"))).await;
    assert!(matches!(control(1).await.unwrap(), Controlled::Final { by_this: true, .. }));
    // A try whose reply got lost is repeated, and takes nothing back.
    assert!(matches!(control(1).await.unwrap(), Controlled::Final { by_this: false, .. }));
    world.pass(MINUTE * 2).await;
    let taken = access(&world, Access::Reserve(reserve(2, "k", "body"))).await;
    assert_eq!(taken, Accessed::Reserved { seed: Uuid::from_u128(100), changed: Some(true) });

    // Whoever slept meanwhile does nothing any more.
    world.control(&Control::Retry { run: Address::Run(run), epoch: None, input: None, repair: None }).await;
    assert!(control(1).await.is_err());
    assert_eq!(world.status(run).await, outlast_core::Status::Ready);
}
