-- queued for later -> due, for runs whose wait has ended. Looks across tenants: the caller has checked whose they are.
-- SQL, because a function does it.
select atlas.wake_parents(:run_ids);
