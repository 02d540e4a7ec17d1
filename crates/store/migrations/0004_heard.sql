-- Whether somebody listens for the run's end: whoever ends it need not look for listeners of a run that says no.
alter table outlast.agenda add column heard {small} not null default 0;
