alter table outlast.logs drop column step;
