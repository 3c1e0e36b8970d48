-- ended and past its age -> removed, with RECURRING_PRUNED.
select atlas.prune_recurring(:tenant_id, :before, :limit) as runs;
