-- Browsers that showed a token. Of what they were given for it only the hash is kept; a session opens what its token does,
-- as long as that does.
create table outlast.sessions (
    shard {small} not null,
    hash {bytes} not null,
    token {id} not null,
    created_at {big} not null,
    seen_at {big} not null,
    primary key (shard, hash)
);
create index sessions_by_time on outlast.sessions (shard, seen_at);

-- How long the lines of queues were, once a minute: for charts, which never look at runs. In the first shard, of all of them.
create table outlast.depths (
    shard {small} not null,
    minute {big} not null,
    queue text {bytewise} not null,
    due {big} not null,
    running {big} not null,
    -- How long the one that was due first had been in line, in microseconds.
    oldest {big} not null,
    primary key (shard, minute, queue)
);
