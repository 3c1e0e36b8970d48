-- What keeps Postgres from removing the dead rows of this database: sessions, prepared transactions, replication slots, standbys, the
-- oldest first. None younger than `min_seconds`.
--
-- A holder's age in time is that of the first audit row that is newer than its horizon: Atlas writes one with every change, and
-- the server has no time of a transaction id. A transaction that takes a new snapshot for each statement is then as young as its
-- statement. Without a newer audit row Atlas has changed nothing since, and nothing is kept.
-- Vacuum holds nothing back; autovacuum gives way by itself; parallel workers end with their leader. A session of another database
-- matters only if it is a standby's. Of sessions with the same horizon the one that writes is the cause: its transaction id is in
-- the snapshots of all that began after it.
-- A login without pg_read_all_stats sees the horizon of another's session, and not its state and times: `is_hidden`. Dead rows are the estimate of the statistics.
-- Called by engine/xmin_horizon.py. SQL, because it reads the catalogs.
with holders as (
  select 'session' as kind, a.pid::text as name, a.usename::text as login, a.application_name as application, a.state,
    a.xact_start as began_at, a.backend_xid as xid, a.backend_xmin as xmin, a.backend_xid is not null as writes,
    false as catalogs_only, a.query = '<insufficient privilege>' as is_hidden
  from pg_catalog.pg_stat_activity a
  where a.datname = current_database()
    and coalesce(a.backend_type, '') not in ('walsender', 'autovacuum worker')
    and a.usesysid is not null
    and a.leader_pid is null
    and a.pid <> pg_backend_pid()
    and not exists (select from pg_catalog.pg_stat_progress_vacuum v where v.pid = a.pid)
    and coalesce(a.backend_xid, a.backend_xmin) is not null
  union all
  select 'prepared transaction', p.gid, p.owner::text, null, null, p.prepared, p.transaction, null, true, false, false
  from pg_catalog.pg_prepared_xacts p
  where p.database = current_database()
  union all
  -- A standby without a slot, with hot_standby_feedback.
  select 'standby', r.application_name, r.usename::text, r.application_name, r.state, r.backend_start, null, r.backend_xmin, false, false, false
  from pg_catalog.pg_stat_replication r
  where r.backend_xmin is not null
  union all
  select case when s.xmin is not null and r.pid is not null then 'standby' else 'slot' end, s.slot_name::text, r.usename::text,
    r.application_name, case when s.active then 'active' else 'not in use' end, null, null, coalesce(s.xmin, s.catalog_xmin), false, s.xmin is null, false
  from pg_catalog.pg_replication_slots s
  left join pg_catalog.pg_stat_replication r on r.pid = s.active_pid
  where s.xmin is not null or (s.catalog_xmin is not null and not s.active)
),
latest as (
  select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as xid
)
select h.kind, h.name, h.login, h.application, h.state, h.catalogs_only, coalesce(h.is_hidden, false) as is_hidden, s.since,
  extract(epoch from clock_timestamp() - s.since)::float8 as seconds,
  (select coalesce(sum(t.n_dead_tup), 0)::bigint from pg_catalog.pg_stat_all_tables t
   where t.schemaname = case when h.catalogs_only then 'pg_catalog' else :schema::text end) as dead_rows
from holders h
cross join latest n
-- The oldest of its transaction ids, in 64 bits: by how far it is before this snapshot's newest, or after it. `age` would count what
-- other databases began since this snapshot was taken.
cross join lateral (
  select min(n.xid + 2147483648 - ((n.xid + 2147483648 - x.xid::text::bigint) & 4294967295)) as xid
  from unnest(array[h.xid, h.xmin]) x(xid)) o
cross join lateral (
  select greatest(h.began_at, l.created_at) as since
  from atlas.audit_log l
  where l.epoch = (select max(epoch) from atlas.audit_epoch)
    and l.xid >= greatest(o.xid, 0)::text::xid8
  order by l.epoch, l.xid, l.id
  limit 1) s
where s.since < clock_timestamp() - make_interval(secs => :min_seconds)
order by h.catalogs_only, o.xid, h.writes desc, s.since
limit 10;
