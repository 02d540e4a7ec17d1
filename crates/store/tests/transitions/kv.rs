//! Values that handlers keep, while the clock stands still.

use std::time::Duration;

use outlast_core::NodeId;
use outlast_store::*;
use uuid::Uuid;

use crate::stories;
use crate::world::*;

fn name(key: &str) -> KvName {
    KvName { tenant: String::new(), space: "default".into(), key: key.into() }
}

fn write(key: &str, change: KvChange) -> KvWrite {
    KvWrite { id: Uuid::from_u128(fastrand::u128(..)), name: name(key), change, expect: None }
}

fn set(key: &str) -> KvWrite {
    write(key, KvChange::Set { value: json("1"), ttl: None })
}

async fn made(world: &World, write: KvWrite) -> i64 {
    match world.store.kv_write(&[write]).await.unwrap()[0] {
        KvWritten::Done { version } => version,
        other => panic!("{other:?}"),
    }
}

/// Deletes one value of each shard, the one whose time was over first.
async fn sweep(world: &World) {
    for shard in 0..world.store.shards() {
        let (unknown_after, forget_after) = (Duration::from_secs(3600), Duration::from_secs(3600));
        let ask = Sweep {
            by: NodeId::new(1),
            shard,
            unknown_after,
            after: Mark::default(),
            forget_after,
            limit: 1,
            only_orphans: false,
        };
        world.store.sweep(&ask).await.unwrap();
    }
}

stories! {
    async fn a_version_rises_also_in_a_moment_that_does_not_pass(world: World) {
        // So that there is always something to sweep.
        for n in 0..10 {
            let ttl = Some(Duration::from_secs(1));
            made(&world, write(&format!("old {n}"), KvChange::Set { value: json("1"), ttl })).await;
        }
        world.store.clock().advance(Duration::from_secs(2));
        let mut versions = vec![made(&world, set("key")).await];
        assert_eq!(versions[0], world.now().micros());
        for _ in 0..3 {
            versions.push(made(&world, set("key")).await);
            versions.push(made(&world, write("key", KvChange::Delete)).await);
            sweep(&world).await;
        }
        versions.push(made(&world, set("key")).await);
        assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");

        let late = KvWrite { expect: Some(versions[0].into()), ..set("key") };
        let conflict = KvWritten::Conflict { current: versions.last().copied() };
        assert_eq!(world.store.kv_write(&[late]).await.unwrap(), [conflict]);
    }

    async fn a_value_is_gone_at_the_very_moment_that_was_said(world: World) {
        let ttl = Duration::from_secs(60);
        made(&world, write("key", KvChange::Set { value: json("1"), ttl: Some(ttl) })).await;
        let found = async || world.store.kv_get(&name("key")).await.unwrap();
        assert_eq!(found().await.unwrap().expires_at, Some(world.now() + ttl));
        world.store.clock().advance(ttl - Duration::from_micros(1));
        sweep(&world).await;
        assert!(found().await.is_some());
        world.store.clock().advance(Duration::from_micros(1));
        assert!(found().await.is_none());
        let absent = KvWrite { expect: Some(Expect::Absent), ..set("key") };
        made(&world, absent).await;
        sweep(&world).await;
        assert!(found().await.is_some());
    }
}
