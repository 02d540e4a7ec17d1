-- The epoch in which a suspect was begun with no other beside it. Only a death in that very turn counts against it.
alter table outlast.agenda add column alone {big};
