-- When a node last took runs with a claim whose number was old by then; 0 if it never did. Empty for one whose program does not say so. Whoever counts who runs
-- of a queue looks through the claims of a moment, and not of ten seconds, where nobody was late.
alter table outlast.leases add column late_at {big};
