-- Runs that want to hear of another's end without being its parent. `name` is what the end is told under.
-- The rows go when the run ends.
create table outlast.listeners (
    shard {small} not null,
    run {id} not null,
    listener {id} not null,
    name text not null,
    primary key (shard, run, listener, name)
);
