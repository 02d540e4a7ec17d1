-- How far a queue whose groups take turns was looked through for runs that have no group, of which no index tells them apart:
-- a due time and an id, or nothing where the next look begins at the head of the line.
alter table outlast.queues add column loose text not null default '';
