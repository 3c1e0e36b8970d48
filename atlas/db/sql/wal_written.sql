-- How far the write-ahead log of the primary is on its disk, and of which cluster and timeline it is. What a caller was told is committed
-- is before this position. The timeline, which a failover changes, is kept in a row too: a standby that does not follow this primary, and
-- may be ahead of it by what was lost, lacks the row. Called by atlas/db/replica.py. SQL, because Prisma has no type for positions.
with at as materialized (
  select pg_current_wal_flush_lsn() as position,
    ('x' || left(pg_walfile_name(pg_current_wal_flush_lsn()), 8))::bit(32)::int as timeline
),
kept as (
  insert into atlas.system_state as s (key, value, updated_by)
  select 'timeline', to_jsonb(a.timeline), 'replica'
  from at a
  where not exists (select from atlas.system_state k where k.key = 'timeline' and k.value = to_jsonb(a.timeline))
  on conflict (key) do update set value = excluded.value, updated_at = clock_timestamp()
)
select (a.position - '0/0'::pg_lsn)::bigint as position, atlas.system_identifier() as cluster, a.timeline
from at a;
