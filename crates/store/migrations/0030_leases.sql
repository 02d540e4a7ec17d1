-- How long a node is alive, apart from the row that all its writers hold: on PostgreSQL that row would be written anew with each renewal, and each version that
-- writers had locked is dear to pass over for as long as somebody's snapshot keeps it. The node's own row has a lease for programs that do not know this
-- table: a longer one, seldom renewed. SQLite has one version of a row, and nothing here.
create table outlast.leases (
    shard {small} not null,
    node {id} not null,
    lease_until {big} not null,
    primary key (shard, node),
    foreign key (shard, node) references outlast.nodes (shard, id) on delete cascade
);

-- The nodes, each with the lease that counts.
create view outlast.members as
select n.shard, n.id, n.name, n.host, n.pid, n.codes, n.joined_at, coalesce(l.lease_until, n.lease_until) as lease_until,
       n.queues, n.slots, n.about
  from outlast.nodes as n left join outlast.leases as l on l.shard = n.shard and l.node = n.id;

drop view outlast.explained;
{explained outlast.members}
