-- What a run was started with and needs when it is tried again: its group, and the kind of which it is the only one
-- that has not ended.
alter table outlast.runs add column group_key text;
alter table outlast.runs add column unique_key text;
