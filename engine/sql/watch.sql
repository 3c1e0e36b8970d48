-- The current alerts, a row each, and since when. Looks across tenants: alerts are for operators of the installation.
-- A worker is lost if its lease expired before it signed off. SQL, because every alert is found by the database's clock.
select 'worker_lost' as kind, worker_id as subject,
  'Worker ' || worker_id || ' is silent; its jobs return to the queue.' as message, last_seen_at as since
from atlas.job_workers
where lease_expires_at < coalesce(dead_at, clock_timestamp())
  and coalesce(dead_at, clock_timestamp()) > clock_timestamp() - make_interval(secs => :worker_lost)
union all
select 'host_silent', h.id::text,
  'Host ' || h.name || ' of ' || t.slug || case when h.last_seen_at is null then ' was never seen' else ' is silent' end
    || ', and jobs wait for it.', h.last_seen_at
from atlas.hosts h
join atlas.tenants t on t.id = h.tenant_id
where h.is_active
  and coalesce(h.last_seen_at, h.created_at) < clock_timestamp() - make_interval(secs => :host_silent)
  and exists (select from only atlas.jobs j where j.host_id = h.id and j.status = 'queued' and j.next_retry_at is null)
union all
select 'intents_stuck', 'intents',
  count(*) || case when count(*) = 1 then ' workflow request is' else ' workflow requests are' end || ' not processed.', min(i.created_at)
from (
  (select created_at from atlas.intents where status = 'draft' and created_at < clock_timestamp() - make_interval(secs => :intent_stuck) limit 1000)
  union all
  (select created_at from atlas.intents where status = 'validating' and claimed_at < clock_timestamp() - make_interval(secs => :intent_stuck) limit 1000)
) i
where exists (select from atlas.system_state s where atlas.is_open(s))
having count(*) > 0
union all
select 'engine_silent', 'engine',
  'No engine processes workflow requests. Start a worker that serves ENGINE_RUN.', e.updated_at
from atlas.system_state g
left join atlas.system_state e on e.key = 'engine_tick'
where atlas.is_open(g)
  and g.value->>'engine_enabled' is distinct from 'false'
  and coalesce(e.updated_at, g.updated_at) < clock_timestamp() - make_interval(secs => :engine_silent)
  and greatest(g.updated_at, (g.value->>'engine_since')::timestamptz) < clock_timestamp() - make_interval(secs => :engine_silent)
  and (exists (select from atlas.intents where status in ('draft', 'validating'))
    or exists (select from only atlas.jobs j where atlas.is_ready(j)
               and job_type = 'ENGINE_RUN'))
union all
-- The last reconciliation with a provider: engine/effects/reconcile.py.
select 'effects_differ', s.value->>'provider',
  'The effect ledger and ' || (s.value->>'provider') || ' differ in ' || (s.value->>'differences')
    || case when s.value->>'differences' = '1' then ' effect' else ' effects' end || '. See `atlas effects reconcile ' || (s.value->>'provider') || '`.',
  (s.value->>'finished_at')::timestamptz
from atlas.system_state s
where s.key like 'effects\_report:%'
  and (s.value->>'differences')::int > 0
union all
-- Found by the signer, which compares with what it has signed, outside of the database.
select 'audit_lost_end', 'audit log', value->>'message', null
from atlas.system_state
where key = 'audit_lost_end'
union all
select 'audit_damaged', 'audit log', s.value->>'message', s.updated_at
from atlas.system_state s
where s.key = 'audit_verification'
  and s.value->>'status' in ('damaged', 'failed')
union all
select 'checkpoint_not_copied', c.key,
  'Checkpoints are not copied to ' || c.key || ': ' || (c.value->>'error'), (c.value->>'failing_since')::timestamptz
from atlas.system_state s
cross join lateral jsonb_each(s.value) c
where s.key = 'checkpoint_copies'
  and c.value->>'error' is not null
  and (c.value->>'failing_since')::timestamptz < clock_timestamp() - make_interval(secs => :copy_late)
union all
-- In this hour and the one before, compared with the day before them.
select 'failures_rise', t.slug || ' ' || r.job_type,
  r.bad || ' of the last ' || r.runs || ' attempts of ' || r.job_type || ' for ' || t.slug || ' failed.',
  date_trunc('hour', clock_timestamp(), 'UTC') - interval '1 hour'
from (
  select tenant_id, job_type, sum(runs) as runs, sum(failed + timed_out + lost) as bad
  from atlas.usage_hourly where hour >= date_trunc('hour', clock_timestamp(), 'UTC') - interval '1 hour' group by 1, 2
) r
join atlas.tenants t on t.id = r.tenant_id
left join lateral (
  select sum(failed + timed_out + lost) / nullif(sum(runs), 0) as share
  from atlas.usage_hourly u
  where u.tenant_id = r.tenant_id and u.job_type = r.job_type
    and u.hour >= date_trunc('hour', clock_timestamp(), 'UTC') - interval '25 hours'
    and u.hour < date_trunc('hour', clock_timestamp(), 'UTC') - interval '1 hour'
) d on true
where r.runs >= :spike_runs
  and r.bad / r.runs >= :spike_share::float8
  and r.bad / r.runs > 2 * coalesce(d.share, 0)
order by 1, 2;
