-- Values that handlers keep, by tenant, space and key, in the shard of tenant and space. Names are compared byte by
-- byte ({bytewise}) on both databases, so that a prefix is a range of keys. A row whose time is over reads as if it were
-- not there; one without a value was deleted. Versions only rise, also over the time in which there is no row: see
-- `transitions/kv.rs`.
create table outlast.kv (
    shard {small} not null,
    tenant text {bytewise} not null,
    space text {bytewise} not null,
    key text {bytewise} not null,
    version {big} not null,
    codec text,
    value {bytes},
    expires_at {big},
    updated_at {big} not null,
    primary key (shard, tenant, space, key)
);
create index kv_expired on outlast.kv (shard, expires_at) where expires_at is not null;

-- Ids of writes and the versions that they made, so that a repeated one happens once.
create table outlast.kv_writes (
    shard {small} not null,
    id {id} not null,
    version {big} not null,
    at {big} not null,
    primary key (shard, id)
);
create index kv_writes_by_time on outlast.kv_writes (shard, at);

create view outlast.show_kv as
select k.tenant, k.space, k.key, k.version, {json k.value k.codec} as value,
       {time k.updated_at} as updated_at, {time k.expires_at} as expires_at
  from outlast.kv as k where k.value is not null;
