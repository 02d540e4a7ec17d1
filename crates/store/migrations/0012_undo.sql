-- Whether a run reverts what it did. Where it stands in line is told by its status as ever; people see `undoing`.
alter table outlast.agenda add column undoing {small} not null default 0;

drop view outlast.show_runs;
create view outlast.show_runs as
select {shown r.id} as run, r.tenant, r.definition, r.version, r.key,
       case coalesce(e.status, case when a.undoing = 1 and a.status <= 3 then 6 else a.status end)
            when 1 then 'ready' when 2 then 'running' when 3 then 'waiting' when 4 then 'paused'
            when 5 then 'blocked' when 6 then 'undoing' when 7 then 'undo_failed' when 8 then 'completed'
            when 9 then 'failed' when 10 then 'cancelled' end as status,
       a.reason, r.queue, r.priority, a.attempt,
       {time r.created_at} as created_at, {time a.due_at} as due_at, {time e.finished_at} as finished_at,
       {shown a.node} as node, r.owner, {shown r.parent} as parent,
       {json r.input r.codec} as input, {json e.output e.codec} as output, e.error
  from outlast.runs as r
       left join outlast.agenda as a on a.shard = r.shard and a.id = r.id
       left join outlast.results as e on e.shard = r.shard and e.run = r.id;

drop view outlast.show_journal;
create view outlast.show_journal as
select {shown j.run} as run, j.pos,
       case j.kind / 10
            when 0 then 'step' when 1 then 'transaction' when 2 then 'sleep' when 3 then 'event'
            when 4 then 'promise' when 5 then 'child' when 6 then 'send' when 7 then 'value'
            when 8 then 'state' when 9 then 'cancel' when 10 then 'continue' when 11 then 'job'
            when 12 then 'undo' end as op,
       case j.kind % 10
            when 0 then 'opened' when 1 then 'attempt' when 2 then 'done' when 3 then 'failed' end as phase,
       j.name, {time j.at} as at, j.epoch, {json j.body j.codec} as body
  from outlast.journal as j;
