-- The step in which a line was logged, with its occurrence, or `undo:` and the step that was undone; nothing where none was running.
alter table outlast.logs add column step text;
