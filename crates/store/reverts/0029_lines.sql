drop index outlast.agenda_next;
create index agenda_next on outlast.agenda (shard, due_at) where due_at is not null;
drop table outlast.rollup_waits;
alter table outlast.runs drop column wanted_at;
