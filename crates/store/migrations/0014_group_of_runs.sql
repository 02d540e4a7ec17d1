-- What a run was started with and needs when it is tried again: its group, and the kind of which it is the only one
-- that has not ended.
alter table outlast.runs add column group_key text;
alter table outlast.runs add column unique_key text;

-- For how long whoever stands for a kind said it would: 0 until it has ended, 1 until it begins, 2 `until` then. Null
-- where an older version wrote the row. It goes with its run, which is kept for as long as it stands for its kind.
alter table outlast.uniques add column scope {small};
delete from outlast.uniques as u
 where not exists (select 1 from outlast.runs as r where r.shard = u.shard and r.id = u.run);
drop index outlast.uniques_by_time;

-- How often a queue was changed. Nodes compare the sum, which no clock makes smaller.
alter table outlast.queues add column changes {big} not null default 1;
