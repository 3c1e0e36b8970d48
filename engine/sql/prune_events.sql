-- handled and past its age -> gone, with EVENTS_PRUNED; firings likewise.
select events, fires from atlas.prune_events(:tenant_id, :before, :limit);
