-- Why each unfinished run is not progressing, for people with psql or sqlite3: the kinds are those of `outlast explain`,
-- which knows more (groups, order, rates, what of the open waits can still come). {now}, {rule queue name},
-- {has list text} and {listed words} differ by database.

-- Whose end a run waits for.
create index listeners_by_listener on outlast.listeners (shard, listener);

create view outlast.explained as
select {shown w.id} as run, w.definition, w.version, w.key, w.queue, w.status, w.kind,
       case w.kind
            when 'held' then 'node ' || w.node || ' works on it'
            when 'node_lost' then 'node ' || w.node || ' worked on it, and its lease has ended'
            when 'blocked' then w.reason
            when 'undo_failed' then w.reason
            when 'paused' then coalesce(w.reason, 'paused until somebody resumes it')
            when 'waiting' then 'waiting for ' || coalesce(w.waits, 'the end of another run')
            when 'sleeping' then 'sleeping'
            when 'retry' then 'its last attempt failed: the next is attempt ' || w.attempt
            when 'after_crash' then 'processes died while they ran it: ' || w.crashes
            when 'undoing' then 'it reverts what it did'
            when 'later' then 'it is not due yet'
            when 'no_node' then 'no node is up'
            when 'no_code' then 'no node that is up knows ' || w.code
            when 'not_served' then 'no node that knows ' || w.code || ' takes from queue ' || w.queue
            when 'queue_paused' then 'queue ' || w.queue || ' is paused'
            when 'queue_draining' then 'queue ' || w.queue || ' is drained, and the run was started later'
            when 'queue_full' then 'queue ' || w.queue || ' is full'
            when 'due' then 'due, as far as this view knows: see outlast explain'
            else 'nothing will wake it' end as text,
       w.waits, {time w.due_at} as due_at, w.node, {time w.lease_until} as lease_until, w.cancel_reason as asked_to_stop
  from (select s.*,
               case when s.node_id is not null and s.node is null then 'no_wake'
                    when s.node_id is not null and s.lease_until < {now} then 'node_lost'
                    when s.node_id is not null then 'held'
                    when s.status in ('blocked', 'undo_failed') and s.reason is null then 'no_wake'
                    when s.status in ('blocked', 'undo_failed', 'paused') then s.status
                    when s.due_at is null and s.status = 'waiting' then 'waiting'
                    when s.due_at is null then 'no_wake'
                    when s.due_at > {now} and s.status = 'waiting' and s.only_sleeps = 1 then 'sleeping'
                    when s.due_at > {now} and s.status = 'waiting' then 'waiting'
                    when s.due_at > {now} and s.status = 'undoing' then 'undoing'
                    when s.due_at > {now} and s.crashes > 0 then 'after_crash'
                    when s.due_at > {now} and s.attempt > 1 then 'retry'
                    when s.due_at > {now} then 'later'
                    when s.nodes = 0 then 'no_node'
                    when s.knowing = 0 then 'no_code'
                    when s.serving = 0 then 'not_served'
                    when s.state = 1 then 'queue_paused'
                    when s.state = 2 and s.created_at > s.since then 'queue_draining'
                    when s.held >= s.slots then 'queue_full'
                    else 'due' end as kind
          from (select a.id, r.definition, r.version, r.key, a.queue, a.code, a.due_at, a.attempt, a.crashes, a.reason,
                       a.cancel_reason, a.node as node_id, n.name as node, n.lease_until, r.created_at, q.state, q.since,
                       case when a.undoing = 1 and a.status <= 3 then 'undoing' else case a.status when 1 then 'ready' when 2 then 'running' when 3 then 'waiting' when 4 then 'paused'
                            when 5 then 'blocked' when 6 then 'undoing' when 7 then 'undo_failed' end end as status,
                       (select {listed o.word}
                          from (select case j.kind / 10 when 2 then 'a sleep' when 3 then 'event ' || j.name
                                            when 4 then 'promise ' || j.name when 5 then 'the end of ' || j.name
                                            when 9 then 'the request to stop' else 'the next attempt of ' || j.name end as word
                                  from outlast.journal as j
                                 where a.status = 3 and j.shard = a.shard and j.run = a.id
                                   and (j.kind < 60 or j.kind / 10 = 9)
                                 group by j.kind / 10, j.name having max(j.kind % 10) < 2) as o) as waits,
                       (select min(case when o.op = 2 then 1 else 0 end)
                          from (select j.kind / 10 as op
                                  from outlast.journal as j
                                 where a.status = 3 and j.shard = a.shard and j.run = a.id
                                   and (j.kind < 60 or j.kind / 10 = 9)
                                 group by j.kind / 10, j.name having max(j.kind % 10) < 2) as o) as only_sleeps,
                       (select count(*) from outlast.nodes as l
                         where l.shard = a.shard and l.lease_until >= {now}) as nodes,
                       (select count(*) from outlast.nodes as l
                         where l.shard = a.shard and l.lease_until >= {now} and {has l.codes a.code}) as knowing,
                       (select count(*) from outlast.nodes as l
                         where l.shard = a.shard and l.lease_until >= {now} and {has l.codes a.code}
                           and (l.queues = '[]' or {has l.queues a.queue})) as serving,
                       {rule q limit} as slots,
                       case when {rule q limit} is not null then
                            (select count(*) from outlast.agenda as h where h.node is not null and h.queue = a.queue)
                       end as held
                  from outlast.agenda as a
                       left join outlast.runs as r on r.shard = a.shard and r.id = a.id
                       left join outlast.nodes as n on n.shard = a.shard and n.id = a.node
                       left join outlast.queues as q on q.name = a.queue) as s) as w;
