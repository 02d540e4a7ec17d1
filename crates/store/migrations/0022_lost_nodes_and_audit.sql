-- Nodes that said nothing any more, and how many runs were taken from each: for people, who ask the next morning. Forgotten
-- a day later.
create table outlast.lost (
    shard {small} not null,
    id {id} not null,
    name text not null,
    host text not null,
    pid {big} not null,
    joined_at {big} not null,
    lost_at {big} not null,
    freed {big} not null,
    primary key (shard, id)
);

-- What was done to one run, among all that anybody did.
create index audit_by_target on outlast.audit (shard, target, at, id);

-- Runs by their key alone: whoever looks for an order knows its number, and nothing else.
create index runs_by_key on outlast.runs (shard, key) where key is not null;
