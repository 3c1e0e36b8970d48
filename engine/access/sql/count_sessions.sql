-- The sessions of a token that are open. Called by engine/access/quotas.py. SQL, because they expire by the database's clock.
select count(*)::int
from atlas.sessions
where token_id = :of::text::uuid
  and ended_at is null
  and expires_at > clock_timestamp();
