drop view outlast.explained;
{explained outlast.nodes}
drop view outlast.members;
drop table outlast.leases;
