-- running -> succeeded, or a step of a run recorded, as the last statement of an application's transaction: what the handler wrote, its
-- outcome and its audit row are one commit. Fenced as finish and record_steps are, by worker, attempt and a live lease. What is refused
-- raises, so that nothing of the transaction stays: AT403 (the token is not that of the attempt) or AT410 (the lease was lost).
-- p_jobs: [{id, attempt, token, output, action, message, meta, cost, detail}], one unless the handler takes batches.
-- p_step: {branch, position, name, attempts, seconds, input, output, known, reset}, with the run as the only one of p_jobs.
-- It runs as the owner of the tables, for logins without a right to any of them; grant_enqueue lets a login call it.
-- Locks: worker (for a step, until a reaper that looks at it has ended), job rows in ascending id, then the rows of their parents.
-- Called by engine/jobs/attempts/sql/commit_attempt.sql.
create or replace function commit_attempt(p_worker text, p_jobs jsonb, p_step jsonb default null) returns void
language plpgsql volatile security definer
set search_path from current as $$
#variable_conflict use_variable
declare
  known constant bytea := (select k.key from worker_keys k where k.worker_id = p_worker);
  mark constant jsonb := jsonb_build_object('login', session_user);
  ids uuid[];
  attempts int[];
  outputs jsonb[];
  actions text[];
  messages text[];
  metas jsonb[];
  costs int[];
  details jsonb[];
  forged boolean;
  recorded record;
  lost uuid;
begin
  -- What is the same for all is passed once, as finish takes it.
  select array_agg(j.id order by j.id),
    case when min(j.attempt) = max(j.attempt) then array[min(j.attempt)] else array_agg(j.attempt order by j.id) end,
    case when count(j.output) > 0 then array_agg(j.output order by j.id) end,
    case when min(j.action) = max(j.action) then array[min(j.action)] else array_agg(j.action order by j.id) end,
    case when count(j.message) > 0 then array_agg(j.message order by j.id) end,
    case when count(distinct coalesce(j.meta, '{}')) = 1 then (array_agg(coalesce(j.meta, '{}') || mark))[1:1]
         else array_agg(coalesce(j.meta, '{}') || mark order by j.id) end,
    case when count(j.cost) > 0 then array_agg(j.cost order by j.id) end,
    case when count(j.detail) > 0 then array_agg(j.detail order by j.id) end,
    bool_or(j.token is distinct from attempt_token(known, j.id, j.attempt))
  into ids, attempts, outputs, actions, messages, metas, costs, details, forged
  from jsonb_to_recordset(p_jobs)
    j(id uuid, attempt int, token text, output jsonb, action text, message text, meta jsonb, cost int, detail jsonb);
  if known is null or forged is not false then
    raise exception 'the token is not that of the attempt' using errcode = 'AT403',
      hint = 'Use ctx.transaction() or run.transaction() in a handler: a worker makes the tokens of its own attempts.';
  end if;
  -- A process that freezes or vanishes before its commit keeps the row of the job no longer than that.
  perform limit_idle();
  if p_step is null then
    select f.id into lost
    from finish(p_worker, null, ids, attempts, array['succeeded'], outputs, null, null, null, costs, actions, null, messages, metas, null,
      details, null) f limit 1;
  else
    perform pg_advisory_xact_lock_shared(lock_class('worker'), hashtext(p_worker));
    -- Until this commits, the run is not suspended so no other attempt continues it.
    perform from only jobs j where j.id = ids[1] for share;
    select s.* into recorded
    from record_steps(p_worker, false, ids, attempts, array[p_step->>'branch'], array[(p_step->>'position')::int], array[p_step->>'name'],
      null, null, array[(p_step->>'attempts')::int], array[(p_step->>'seconds')::float8], array[p_step->'input'],
      array[(p_step->>'output')::json], null, case when (p_step->>'known')::boolean then array[true] end,
      case when (p_step->>'reset')::boolean then ids end) s;
    lost := case when recorded.busy or recorded.lost is not null then ids[1] end;
  end if;
  if lost is not null then
    raise exception 'job % is no longer leased to this worker', lost using errcode = 'AT410', detail = lost::text,
      hint = coalesce(attempts[array_position(ids, lost)], attempts[1])::text;
  end if;
end $$;
