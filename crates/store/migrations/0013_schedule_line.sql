-- The times of a schedule that wait for the run before, as spans from the first to the last: `micros:micros,…`.
alter table outlast.schedules add column waiting text not null default '';
