drop index outlast.replies_by_holder;
alter table outlast.replies drop column changed;
drop table outlast.audit_chain;
drop index outlast.audit_loose;
drop index outlast.audit_by_place;
alter table outlast.audit drop column hash;
alter table outlast.audit drop column place;
alter table outlast.audit drop column after;
alter table outlast.audit drop column before;
