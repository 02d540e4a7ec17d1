alter table outlast.leases drop column late_at;
