-- From which address it was asked for, and what was changed: how it stood before and after, without what people sent.
alter table outlast.audit add column ip text;
alter table outlast.audit add column before text;
alter table outlast.audit add column after text;
-- Each line has the hash of itself and of the hash before it: whoever changes or removes one breaks the chain. Lines of
-- programs that know no chain have no place until a server gives them one.
alter table outlast.audit add column place {big};
alter table outlast.audit add column hash text;
create unique index audit_by_place on outlast.audit (shard, place) where place is not null;
create index audit_loose on outlast.audit (shard, at, id) where place is null;

-- Where the chain ends, and behind which line it begins: those before were kept long enough. Whoever adds a line locks this.
create table outlast.audit_chain (
    shard {small} not null,
    place {big} not null,
    hash text not null,
    begin_place {big} not null,
    begin_hash text not null,
    begun_at {big} not null,
    primary key (shard)
);

-- Whether what a request with an idempotency key asked for was done, and changed something: noted in the same transaction, so
-- that whoever takes the request over does it no second time.
alter table outlast.replies add column changed {small};
create index replies_by_holder on outlast.replies (shard, holder) where status is null;
