-- draft -> validating, with ENGINE_CLAIMED_INTENT; null where the gate is closed. Looks across tenants: the engine serves all.
-- Beside it: how many index entries it read, dead ones too, and when. SQL, because a function does it.
select atlas.claim_intents(:engine, :limit, :stuck_seconds, to_timestamp(:since::float8)) as ids,
  pg_stat_get_xact_tuples_returned('atlas.intents_draft'::regclass) as entries_read,
  extract(epoch from statement_timestamp())::float8 as asked_at;
