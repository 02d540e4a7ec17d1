-- The group that a run of a queue with rules belongs to.
alter table outlast.agenda add column group_key text {bytewise};
create index agenda_groups on outlast.agenda (shard, queue, priority, group_key, due_at, id)
    where group_key is not null and due_at is not null;

-- Queues with rules, in the shard of their name. `rules` is what code says, `own_rules` what people said since;
-- `served` is the group that came last, `used` what the rate has used. Whoever claims locks the row.
create table outlast.queues (
    shard {small} not null,
    name text not null,
    rules text not null,
    own_rules text,
    state {small} not null,
    since {big},
    changed_at {big} not null,
    served text {bytewise} not null,
    used text not null,
    primary key (shard, name)
);

-- Groups about which something has to be remembered, in the shard of their queue: the run that has to end before the
-- next may begin, and what their rate has used, which counts until then.
create table outlast.groups (
    shard {small} not null,
    queue text not null,
    name text {bytewise} not null,
    head {id},
    used text not null,
    used_until {big} not null,
    primary key (shard, queue, name)
);
create index groups_by_time on outlast.groups (shard, used_until);

-- Runs that are the only ones of their kind: while they are unfinished, until they begin, or until then.
create table outlast.uniques (
    shard {small} not null,
    tenant text not null,
    definition text not null,
    key text not null,
    run {id} not null,
    until {big},
    primary key (shard, tenant, definition, key)
);
create index uniques_by_run on outlast.uniques (shard, run);
create index uniques_by_time on outlast.uniques (shard, until) where until is not null;
