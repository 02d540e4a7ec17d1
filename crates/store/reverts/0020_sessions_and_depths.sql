drop table outlast.depths;
drop table outlast.sessions;
