-- ended and past its age -> removed, with RECURRING_PRUNED. SQL, because a function does it.
select atlas.prune_recurring(:tenant_id, :before, :limit) as runs;
