-- The queues to which a token is bound, as JSON; without any it is for all of them. The role of one that is bound begins with `queues:`, so that a program that
-- knows nothing of queues knows no such role and lets nobody in with it.
alter table outlast.tokens add column queues text;
