-- Who may use the API: of a token only its hash is kept. All of this is small and lives in the first shard.
create table outlast.tokens (
    shard {small} not null,
    id {id} not null,
    hash {bytes} not null,
    subject text not null,
    role text not null,
    -- A tenant to which it is bound; without one it is for all of them.
    tenant text,
    created_by text not null,
    created_at {big} not null,
    expires_at {big} not null,
    used_at {big},
    revoked_at {big},
    primary key (shard, id)
);
create unique index tokens_by_hash on outlast.tokens (shard, hash);

-- Who changed what through the API, when, and why. Rows are only ever added.
create table outlast.audit (
    shard {small} not null,
    id {id} not null,
    at {big} not null,
    tenant text not null,
    actor text not null,
    token {id},
    action text not null,
    target text not null,
    reason text,
    request text not null,
    status {small} not null,
    primary key (shard, id)
);
create index audit_by_time on outlast.audit (shard, at, id);

-- What was answered to requests with an idempotency key, or who works on them. Names are compared byte by byte.
create table outlast.replies (
    shard {small} not null,
    actor text {bytewise} not null,
    key text {bytewise} not null,
    route text not null,
    body_hash {bytes} not null,
    -- What the request makes is made of this: whoever does it again makes the same.
    seed {id} not null,
    holder {id} not null,
    held_until {big} not null,
    expires_at {big} not null,
    status {small},
    headers text,
    body {bytes},
    primary key (shard, actor, key)
);
create index replies_expired on outlast.replies (shard, expires_at);
