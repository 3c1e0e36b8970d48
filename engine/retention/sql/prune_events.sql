-- handled and past its age -> removed, with EVENTS_PRUNED; firings likewise. SQL, because a function does it.
select events, fires from atlas.prune_events(:tenant_id, :before, :limit);
