-- Locks the best ready jobs that are not careful and returns their addresses. p_types null means every type.
-- Where several tenants have such jobs, they share what is asked for (see pick_shared). They are looked at from after p_after on and round
-- again, some at a time until there is enough, and 64 at most; p_after becomes where the next claim goes on, null after all were seen.
-- `contested`: there was more than one. `has_more`: ask again for what is missing. Without p_fair all tenants are looked at, and priority and age order their jobs together.
-- What is of a paused type or tenant is left out, and costs no more than its type or tenant does.
-- Runs under the plan settings of claim_careful, which calls it.
create or replace function pick_ready(
  p_types text[], p_limit int, p_fair boolean, inout p_after uuid, p_paused_types text[], p_paused_tenants uuid[], out picked tid[], out contested boolean,
  out has_more boolean
) language plpgsql volatile
set search_path from current as $$
declare
  -- Looking at a tenant costs about as much as claiming a job, and the next claim goes on with the others.
  at_once int := case when p_fair then least(64, greatest(8, p_limit / 5)) else 1000000 end;
  none constant uuid := '00000000-0000-0000-0000-000000000000';
  start constant uuid := coalesce(p_after, none);
  types text[] := coalesce(p_types, ready_types());
  tenants uuid[];
  seen int := 0;
  goes_round boolean := false;
  saw_all boolean;
  of_these record;
begin
  if cardinality(p_paused_types) > 0 then
    types := array(select y from unnest(types) y where y <> all (p_paused_types));
  end if;
  contested := false;
  has_more := false;
  picked := '{}';
  p_after := start;
  loop
    tenants := ready_tenants(types, p_after, at_once, p_paused_tenants);
    if goes_round then
      tenants := array(select t from unnest(tenants) t where t <= start);
    elsif cardinality(tenants) < at_once then
      goes_round := true;
      if start <> none then
        tenants := tenants || array(
          select t from unnest(ready_tenants(types, none, at_once - cardinality(tenants), p_paused_tenants)) t where t <= start);
      end if;
    end if;
    saw_all := goes_round and cardinality(tenants) < at_once;
    if at_once < 64 and not saw_all and exists (
      select from tenant_shares s where s.tenant_id = any (tenants) and s.mean_seconds * p_limit > 0.05 * at_once) then
      -- What these few would get keeps the others waiting for too long.
      at_once := 64;
      goes_round := false;
      continue;
    end if;
    contested := contested or p_fair and cardinality(tenants) > 1;
    if not contested then
      p_after := null;
      picked := array(
        select a.at from unnest(tenants) t(id) cross join unnest(types) y(job_type)
        cross join lateral (
          select j.ctid as at, j.priority, j.created_at from jobs j
          where j.status = 'queued' and j.next_retry_at is null and j.host_id is null and not j.careful
            and j.job_type = y.job_type and j.tenant_id = t.id
          order by j.priority desc, j.created_at limit p_limit for update skip locked) a
        order by a.priority desc, a.created_at limit p_limit);
      return;
    end if;
    if cardinality(tenants) > 0 then
      select * into of_these from pick_shared(types, tenants, p_limit - cardinality(picked));
      picked := picked || of_these.picked;
      has_more := has_more or of_these.has_more;
      p_after := tenants[cardinality(tenants)];
      seen := seen + cardinality(tenants);
    end if;
    exit when saw_all or seen >= 64 or cardinality(picked) >= p_limit;
  end loop;
  if saw_all then
    p_after := null;
  end if;
  has_more := cardinality(picked) < p_limit and (has_more or not saw_all);
end $$;
