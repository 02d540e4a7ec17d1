-- How many runs a node takes at once (0 where it does not say), and what it says of itself, as JSON (empty where it says nothing): which program it is, and
-- for how long it keeps what has ended. For people alone.
alter table outlast.nodes add column slots {big} not null default 0;
alter table outlast.nodes add column about text not null default '';

-- The step that failed in the last of the runs that failed alike, and the versions of the definition in which any did.
alter table outlast.failures add column step text;
create table outlast.failure_versions (
    shard {small} not null,
    tenant text not null,
    fingerprint text not null,
    version {big} not null,
    last_at {big} not null,
    primary key (shard, tenant, fingerprint, version)
);
