-- The first schema. One text for both databases: {bytes}, {id}, {small} and {big} name their types.
-- `shard` leads every key; unfinished runs (agenda) and finished ones (results) are apart.

create table outlast.nodes (
    shard {small} not null,
    id {id} not null,
    name text not null,
    host text not null,
    pid {big} not null,
    codes text not null,
    joined_at {big} not null,
    lease_until {big} not null,
    primary key (shard, id)
);

create table outlast.definitions (
    shard {small} not null,
    name text not null,
    version {big} not null,
    kind {small} not null,
    active {small} not null,
    signature text not null,
    queue text not null,
    priority {small} not null,
    options text not null,
    recorded_at {big} not null,
    primary key (shard, name, version)
);

-- What never changes about a run.
create table outlast.runs (
    shard {small} not null,
    id {id} not null,
    tenant text not null,
    definition text not null,
    version {big} not null,
    kind {small} not null,
    key text,
    queue text not null,
    priority {small} not null,
    created_at {big} not null,
    owner text,
    roles text,
    trace text,
    parent {id},
    parent_op text,
    codec text,
    input {bytes} not null,
    primary key (shard, id)
);
create index runs_by_time on outlast.runs (shard, created_at, id);
create index runs_by_definition on outlast.runs (shard, definition, created_at, id);
create index runs_by_parent on outlast.runs (shard, parent) where parent is not null;

-- Keys in use. A row without a started run holds messages that came first.
create table outlast.keys (
    shard {small} not null,
    tenant text not null,
    definition text not null,
    key text not null,
    run {id} not null,
    started {small} not null,
    news {big} not null,
    primary key (shard, tenant, definition, key)
);
create index keys_by_run on outlast.keys (shard, run);

-- Unfinished runs only: narrow, and all that the claim loop looks at. `due_at` is null while a node
-- holds the run and when nothing but news can wake it.
create table outlast.agenda (
    shard {small} not null,
    id {id} not null,
    status {small} not null,
    kind {small} not null,
    priority {small} not null,
    attempt {small} not null,
    crashes {small} not null,
    due_at {big},
    node {id},
    claim {big},
    epoch {big} not null,
    news {big} not null,
    expires_at {big},
    queue text not null,
    code text not null,
    cancel_reason text,
    reason text,
    primary key (shard, id)
);
create index agenda_due on outlast.agenda (shard, queue, priority, due_at, id) where due_at is not null;
create index agenda_node on outlast.agenda (shard, node, claim) where node is not null;
create index agenda_next on outlast.agenda (shard, due_at) where due_at is not null;
create index agenda_blocked on outlast.agenda (shard, code) where reason is not null;

-- News that a run has not consumed.
create table outlast.inbox (
    shard {small} not null,
    run {id} not null,
    seq {big} not null,
    kind {small} not null,
    name text not null,
    sent_at {big} not null,
    codec text,
    body {bytes},
    primary key (shard, run, seq)
);

create table outlast.journal (
    shard {small} not null,
    run {id} not null,
    pos {int} not null,
    kind {small} not null,
    epoch {big} not null,
    at {big} not null,
    name text not null,
    codec text,
    body {bytes},
    primary key (shard, run, pos)
);

-- How finished runs ended.
create table outlast.results (
    shard {small} not null,
    run {id} not null,
    status {small} not null,
    epoch {big} not null,
    finished_at {big} not null,
    codec text,
    output {bytes},
    error text,
    primary key (shard, run)
);
create index results_by_time on outlast.results (shard, finished_at, run);
create index results_by_status on outlast.results (shard, status, finished_at, run);

-- Promises that were settled: the first value stays.
create table outlast.promises (
    shard {small} not null,
    run {id} not null,
    name text not null,
    settled_at {big} not null,
    primary key (shard, run, name)
);

-- Ids of deliveries, so that a repeated one arrives once.
create table outlast.deliveries (
    shard {small} not null,
    id {id} not null,
    at {big} not null,
    primary key (shard, id)
);
create index deliveries_by_time on outlast.deliveries (shard, at);

-- Steps that have been running for a while.
create table outlast.doing (
    shard {small} not null,
    run {id} not null,
    name text not null,
    attempt {small} not null,
    since {big} not null,
    codec text,
    saved {bytes},
    primary key (shard, run, name)
);

create table outlast.logs (
    shard {small} not null,
    run {id} not null,
    epoch {big} not null,
    n {int} not null,
    at {big} not null,
    level text not null,
    message text not null,
    primary key (shard, run, epoch, n)
);

create table outlast.tags (
    shard {small} not null,
    name text not null,
    value text not null,
    run {id} not null,
    primary key (shard, name, value, run)
);
create index tags_by_run on outlast.tags (shard, run);
