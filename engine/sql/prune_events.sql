-- handled and past its age -> removed, with EVENTS_PRUNED; firings likewise.
select events, fires from atlas.prune_events(:tenant_id, :before, :limit);
