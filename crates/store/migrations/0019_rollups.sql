-- How runs ended, minute by minute: for charts, which never look at runs. Made of `results` in the order of their ends, each
-- once: `rolled` says how far that is, shard by shard.
create table outlast.rolled (
    shard {small} not null primary key,
    finished_at {big} not null,
    run {id} not null
);

create table outlast.rollups (
    shard {small} not null,
    minute {big} not null,
    tenant text not null,
    definition text not null,
    queue text not null,
    completed {big} not null,
    failed {big} not null,
    cancelled {big} not null,
    primary key (shard, minute, tenant, definition, queue)
);

-- How long they took: so many in each bucket, which is the power of two of microseconds.
create table outlast.rollup_times (
    shard {small} not null,
    minute {big} not null,
    tenant text not null,
    definition text not null,
    queue text not null,
    bucket {small} not null,
    runs {big} not null,
    primary key (shard, minute, tenant, definition, queue, bucket)
);

-- Failures that are alike.
create table outlast.failures (
    shard {small} not null,
    tenant text not null,
    fingerprint text not null,
    definition text not null,
    message text not null,
    runs {big} not null,
    first_at {big} not null,
    last_at {big} not null,
    last_run {id} not null,
    primary key (shard, tenant, fingerprint)
);
create index failures_by_time on outlast.failures (shard, last_at);
