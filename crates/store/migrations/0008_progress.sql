-- How far a job says that it is.
alter table outlast.doing add column percent {small};
alter table outlast.doing add column message text;
