-- Those who listened before the run's row said so.
update outlast.agenda set heard = 1 where (shard, id) in (select l.shard, l.run from outlast.listeners as l);
