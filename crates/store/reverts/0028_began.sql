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
alter table outlast.results drop column began_at;
alter table outlast.agenda drop column began_at;
