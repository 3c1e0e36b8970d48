-- A step of a bulk action: changes these jobs, each with its audit event, and moves the record on; running -> done with the last step.
-- All of it in this call, so no process holds the record between two statements: whoever calls next takes the next step. False where the
-- record is no longer as the caller read it (p_position, p_cursor), is not due, or another process is at it; then nothing is changed.
-- p_statuses: for a filter or a preview, the statuses that a job must still have; null for jobs that are named by their ids alone. A job of a
-- preview that has another one now, that ended again since, or is gone, has the verdict already_changed. p_refused: the jobs that
-- policy does not let start again, with the verdict.
-- Locks: the record (skipping it where it is locked), history, shared, then job rows in ascending id. Called by engine/jobs/actions/bulk_actions.py.
create or replace function step_bulk_action(
  p_id uuid, p_position int, p_cursor text, p_ids uuid[], p_next_cursor text, p_is_last boolean, p_statuses text[], p_refused jsonb
) returns boolean language plpgsql volatile
set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
  act bulk_actions;
  chosen uuid[] := p_ids;
  -- The jobs that it leaves alone, with the verdict.
  left_alone jsonb := p_refused;
  -- When the set of its preview was read.
  as_of timestamptz;
  facts jsonb;
  step jsonb;
  step_total int;
  step_changed int;
begin
  select * into act from bulk_actions b
  where b.id = p_id and b.status = 'running' and b.position = p_position and b.list_cursor is not distinct from p_cursor
    and b.next_step_at <= clock_timestamp() and (b.tenant_id is null or b.tenant_id <> all (moving_tenants()))
  for update skip locked;
  if not found then
    return false;
  end if;
  as_of := (act.selection->>'as_of')::timestamptz;
  if p_statuses is not null then
    -- What may change comes back from history first, from the few tables that may hold it. What these actions do not change there is not looked for.
    if act.action in ('retry', 'delete') then
      perform pg_advisory_xact_lock_shared(lock_class('history'), 0);
      perform return_jobs(array(
        select h.id from history_rows(array(select i from unnest(p_ids) i where not exists (select from only jobs j where j.id = i))) h
        where shown_status(h) = any (p_statuses)));
    end if;
    chosen := array(
      select j.id from only jobs j
      where j.id = any (p_ids) and (act.tenant_id is null or j.tenant_id = act.tenant_id) and shown_status(j) = any (p_statuses)
        and (as_of is null or j.finished_at is null or j.finished_at <= as_of)
      order by j.id for update);
    if as_of is not null then
      left_alone := left_alone || coalesce((
        select jsonb_object_agg(i, 'already_changed') from unnest(p_ids) i where i <> all (chosen)), '{}');
      chosen := p_ids;
    end if;
    if act.action = 'retry' and not act.selection ? 'by_ids' then
      -- A retry may do again what was done already: such a job is retried by its id.
      left_alone := left_alone || coalesce((
        select jsonb_object_agg(j.id, 'unknown_outcome') from only jobs j
        where j.id = any (chosen) and j.error->>'outcome' = 'unknown'), '{}');
    end if;
  end if;

  facts := act.request || jsonb_build_object('bulk_action', act.id)
    || case when act.reason <> '' then jsonb_build_object('reason', act.reason) else '{}' end;
  select coalesce(jsonb_object_agg(v.verdict, v.count), '{}'), coalesce(sum(v.count), 0),
    coalesce(sum(v.count) filter (where v.verdict in ('retried', 'canceled', 'requested', 'deleted', 'discarded')), 0)
  into step, step_total, step_changed
  from (
    select coalesce(left_alone->>o.id::text, c.verdict, 'missing') as verdict, count(*)::int as count
    from unnest(chosen) o(id)
    left join change_jobs(
      act.action, array(select i from unnest(chosen) i where not left_alone ? i::text), act.tenant_id, act.actor_type::text,
      act.created_by, facts) c on c.id = o.id
    group by 1) v;

  update bulk_actions b
  set position     = b.position + step_total,
      list_cursor  = p_next_cursor,
      changed      = b.changed + step_changed,
      passed_over  = b.passed_over + step_total - step_changed,
      verdicts     = (
        select coalesce(jsonb_object_agg(v.key, v.count), '{}')
        from (
          select e.key, sum(e.value::int) as count
          from (select * from jsonb_each_text(b.verdicts) union all select * from jsonb_each_text(step)) e
          group by e.key) v),
      status       = case when p_is_last then 'done' else 'running' end,
      finished_at  = case when p_is_last then clock_timestamp() end,
      next_step_at = clock_timestamp() + make_interval(secs => coalesce(step_total / b.rate_per_second, 0)),
      updated_at   = clock_timestamp()
  where b.id = p_id
  returning * into act;
  if p_is_last then
    facts := jsonb_build_object('action', act.action, 'verdicts', act.verdicts,
      'state', (select d.digest from state_digests('bulk_action', act.id::text, null) d)) || act.request;
    perform record_event(act.tenant_id, act.actor_type::text, act.created_by, 'warn', 'BULK_ACTION_ENDED', 'bulk_action', act.id::text, '', facts);
  end if;
  return true;
end $$;
