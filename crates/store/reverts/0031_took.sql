alter table outlast.journal drop column took;
