-- How long what an entry tells of went on until it was recorded, in microseconds, where that did not begin about when the entry before it was recorded:
-- steps that run at once, and what a node takes up again after a pause. Programs that do not know it leave it empty.
alter table outlast.journal add column took {big};
