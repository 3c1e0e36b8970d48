-- Nothing of a tenant, type, definition, workflow, host or trigger starts from here on: once this commits, no claim takes anything of
-- it until it is resumed or p_for seconds are over. Pausing it again changes the reason and the end. Touches no job row.
-- The gate's row says that there are pauses (`pauses`, their version), which is all that a claim reads where there are none.
-- Returns no row where Atlas was never online. Runs as the owner of the tables, since a tenant may not write them: so it checks itself
-- that a tenant pauses what is its own. Locks: gate. Called by engine/jobs/switches/pauses.py.
create or replace function pause_target(
  p_kind text, p_target text, p_tenant uuid, p_reason text, p_for float8, p_actor_type text, p_actor_id text, p_meta jsonb
) returns setof pauses language plpgsql volatile security definer
set search_path from current as $$
declare
  latest bigint;
  made pauses;
  prior jsonb;
  facts jsonb;
begin
  perform check_pause_right(p_kind, p_tenant);
  perform lock_gate();
  update system_state s
  set value = s.value || jsonb_build_object('pauses', n.version, 'pause_version', n.version)
  from (select coalesce((value->>'pause_version')::bigint, 0) + 1 as version from system_state where key = 'atlas_online') n
  where s.key = 'atlas_online'
  returning n.version into latest;
  if not found then
    return;
  end if;
  if p_kind = 'trigger' then
    -- The times of a pause that is over, which this one replaces.
    perform note_outage(p_target::uuid, p.paused_at, p.until) from pauses p
    where p.kind = p_kind and p.target = p_target and p.tenant_id is not distinct from p_tenant and p.until <= clock_timestamp();
  end if;
  select jsonb_build_object('reason', p.reason, 'until', p.until, 'paused_by', p.paused_by, 'paused_at', p.paused_at) into prior
  from pauses p
  where p.kind = p_kind and p.target = p_target and p.tenant_id is not distinct from p_tenant;
  update pauses p
  set version = latest, written_at = clock_timestamp(), reason = p_reason, paused_by = p_actor_id, until = clock_timestamp() + p_for * interval '1 second',
      paused_at = case when p.until <= clock_timestamp() then clock_timestamp() else p.paused_at end
  where p.kind = p_kind and p.target = p_target and p.tenant_id is not distinct from p_tenant
  returning * into made;
  if not found then
    insert into pauses (kind, target, tenant_id, version, reason, paused_by, until)
    values (p_kind, p_target, p_tenant, latest, p_reason, p_actor_id, clock_timestamp() + p_for * interval '1 second')
    returning * into made;
  end if;
  facts := p_meta || jsonb_strip_nulls(jsonb_build_object('pause', made.id, 'since', made.paused_at, 'until', made.until,
    'pause_state', (select d.digest from state_digests('pause', made.id::text, null) d)))
    || case when prior is null then '{}' else jsonb_build_object('changes', value_changes(prior, to_jsonb(made))) end;
  perform record_event(p_tenant, p_actor_type, p_actor_id, 'info', 'PAUSED', p_kind, p_target, coalesce(p_reason, ''), facts);
  perform pg_notify(current_schema() || '_gate', '');
  return next made;
end $$;
