drop table outlast.failure_versions;
alter table outlast.failures drop column step;
alter table outlast.nodes drop column about;
alter table outlast.nodes drop column slots;
