drop index outlast.runs_by_key;
drop index outlast.audit_by_target;
drop table outlast.lost;
