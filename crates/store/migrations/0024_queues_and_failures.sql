-- Lists of the runs of one queue. Most runs are in the queue that nobody named, whose list is that of all runs.
create index runs_by_queue on outlast.runs (shard, queue, created_at, id) where queue <> 'default';

-- How many runs failed alike, minute by minute.
create table outlast.failure_minutes (
    shard {small} not null,
    minute {big} not null,
    tenant text not null,
    fingerprint text not null,
    runs {big} not null,
    primary key (shard, minute, tenant, fingerprint)
);
