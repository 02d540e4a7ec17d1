-- Schedules start runs. `next_at` is the time that comes next as the timetable says it, `due_at` when that is acted
-- on (later by the jitter); both are null when nothing comes any more, `due_at` also while it is paused.
create table outlast.schedules (
    shard {small} not null,
    name text not null,
    timetable text not null,
    zone text not null,
    definition text not null,
    codec text,
    input {bytes} not null,
    options text not null,
    paused {small} not null,
    next_at {big},
    due_at {big},
    last_at {big},
    last_run {id},
    started {big} not null,
    skipped {big} not null,
    changed_at {big} not null,
    primary key (shard, name)
);
create index schedules_due on outlast.schedules (shard, due_at) where due_at is not null;
