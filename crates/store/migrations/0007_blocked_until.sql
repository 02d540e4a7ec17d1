-- Blocked runs by the time at which they must have ended.
create index agenda_blocked_until on outlast.agenda (shard, expires_at) where reason is not null;
