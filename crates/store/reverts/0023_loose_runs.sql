alter table outlast.queues drop column loose;
