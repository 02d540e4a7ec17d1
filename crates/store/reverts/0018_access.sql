drop table outlast.replies;
drop table outlast.audit;
drop table outlast.tokens;
