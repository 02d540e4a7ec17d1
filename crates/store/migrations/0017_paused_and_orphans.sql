-- Why a run that a node holds is to pause at its next boundary; it is paused with the move that ends its turn.
alter table outlast.agenda add column pause_asked text;
-- When a run that was paused before its time is due once it is resumed.
alter table outlast.agenda add column resume_at {big};

-- Whether a child is asked to stop when its parent does not end well.
alter table outlast.runs add column stops_with_parent {small};

-- Parents that did not end well, in the shards of their children: these are asked to stop, page by page.
create table outlast.orphans (
    shard {small} not null,
    parent {id} not null,
    reason text not null,
    -- Children up to this one have been asked.
    after {id},
    primary key (shard, parent)
);
