-- What a repair takes back stays in the journal: its kind is 1000 more, and it counts no more.
drop view outlast.show_journal;
create view outlast.show_journal as
select {shown j.run} as run, j.pos,
       case j.kind % 1000 / 10
            when 0 then 'step' when 1 then 'transaction' when 2 then 'sleep' when 3 then 'event'
            when 4 then 'promise' when 5 then 'child' when 6 then 'send' when 7 then 'value'
            when 8 then 'state' when 9 then 'cancel' when 10 then 'continue' when 11 then 'job'
            when 12 then 'undo' when 13 then 'revise' end as op,
       case when j.kind >= 1000 then 'void' else case j.kind % 10
            when 0 then 'opened' when 1 then 'attempt' when 2 then 'done' when 3 then 'failed' end end as phase,
       j.name, {time j.at} as at, j.epoch, {json j.body j.codec} as body
  from outlast.journal as j;
