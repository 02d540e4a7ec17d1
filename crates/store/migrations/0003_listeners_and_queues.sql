-- Runs that want to hear of another's end without being its parent. `name` is what the end is told under.
-- The rows go when the run ends.
create table outlast.listeners (
    shard {small} not null,
    run {id} not null,
    listener {id} not null,
    name text not null,
    primary key (shard, run, listener, name)
);

-- The queues that a node takes from, as a JSON array. One of an older version does not say: it may take from all.
alter table outlast.nodes add column queues text not null default '[]';
