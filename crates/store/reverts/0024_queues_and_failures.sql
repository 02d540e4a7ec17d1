drop table outlast.failure_minutes;
drop index outlast.runs_by_queue;
