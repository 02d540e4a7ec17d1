alter table outlast.tokens drop column queues;
