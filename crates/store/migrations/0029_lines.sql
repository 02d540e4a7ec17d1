-- From when on a run was wanted that was to begin later than it was made: until then it did not stand in line. Empty for one that was due at once.
alter table outlast.runs add column wanted_at {big};

-- How long runs that ended had stood in line before a node first took them: so many in each bucket, which is the power of two of microseconds.
create table outlast.rollup_waits (
    shard {small} not null,
    minute {big} not null,
    tenant text not null,
    definition text not null,
    queue text not null,
    bucket {small} not null,
    runs {big} not null,
    primary key (shard, minute, tenant, definition, queue, bucket)
);

-- Along all due times go only those who look for what is overdue, and they say so. On PostgreSQL a planner would take this index for a claim too while
-- hardly anything is in line; then each line of each queue costs as much as has left all of them since somebody's snapshot.
drop index outlast.agenda_next;
create index agenda_next on outlast.agenda (shard, due_at) where due_at is not null{of_all};
