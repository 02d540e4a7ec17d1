drop table outlast.failures;
drop table outlast.rollup_times;
drop table outlast.rollups;
drop table outlast.rolled;
