-- Locks the best ready jobs that are not limited and returns their addresses. p_types null means every type.
-- Where several tenants have such jobs, they share what is asked for (see pick_groups). They are looked at from after p_after on and round
-- again, some at a time until there is enough, and 64 at most; p_after becomes where the next claim goes on, null after all were seen.
-- `contested`: there was more than one. `has_more`: ask again for what is missing. Without p_fair all tenants are looked at, and priority and age order their jobs together.
-- What is of a paused type or tenant is left out, and costs no more than its type or tenant does.
-- With p_resume its places are all that is looked at. `passed_over`: another claim may have locked jobs there.
-- Runs under the plan settings of claim_with_limits, which calls it.
create or replace function pick_ready(
  p_types text[], p_limit int, p_fair boolean, inout p_after uuid, p_paused_types text[], p_paused_tenants uuid[], p_resume jsonb, out picked tid[], out contested boolean,
  out has_more boolean, out passed_over boolean
) language plpgsql volatile
set search_path from current as $$
declare
  none constant uuid := '00000000-0000-0000-0000-000000000000';
  start constant uuid := coalesce(p_after, none);
  types text[];
  max_tenants int;
  -- Null up to the last tenant, then where it began.
  until uuid;
  groups record;
  rest record;
  of_these record;
  -- The types that a look is for, and the first tenant of each where the look before has found it.
  looked_at text[];
  firsts uuid[];
  seen int := 0;
  saw_all boolean;
begin
  contested := false;
  has_more := false;
  picked := '{}';
  if p_resume is not null then
    select * into groups from resume_places(p_resume, p_types, p_paused_types, p_paused_tenants);
    contested := p_fair and groups.tenant_count > 1;
    p_after := null;
    passed_over := false;
    if groups.tenant_count > 0 then
      select r.picked, r.passed_over into picked, passed_over
      from pick_places(groups.types, groups.tenants, groups.priorities, groups.since, p_limit, contested) r;
      if picked is null then
        select * into of_these from pick_groups(groups.types, groups.tenants, groups.priorities, groups.since, p_limit, contested);
        picked := of_these.picked;
        has_more := of_these.has_more and cardinality(picked) < p_limit;
        passed_over := true;
      end if;
    end if;
    return;
  end if;
  types := case when p_types is null then ready_types() when cardinality(p_types) > 8 then ready_types_of(p_types) else p_types end;
  if cardinality(p_paused_types) > 0 then
    types := array(select y from unnest(types) y where y <> all (p_paused_types));
  end if;
  -- Looking at a group costs about as much as claiming a job, and the next claim goes on with the others.
  max_tenants := case when p_fair then least(64, greatest(2 + 6 / greatest(1, cardinality(types)), p_limit / (5 * greatest(1, cardinality(types)))))
                      else 1000000 end;
  p_after := start;
  looked_at := types;
  loop
    select * into groups from ready_groups(looked_at, p_after, until, max_tenants, p_paused_tenants, firsts);
    if until is null and groups.tenant_count < max_tenants then
      until := start;
      if start <> none then
        select * into rest from ready_groups(types, none, until, max_tenants - groups.tenant_count, p_paused_tenants);
        groups.next_types := rest.next_types;
        groups.next_first := rest.next_first;
        groups.types := groups.types || rest.types;
        groups.tenants := groups.tenants || rest.tenants;
        groups.tenant_count := groups.tenant_count + rest.tenant_count;
      end if;
    end if;
    saw_all := until is not null and groups.tenant_count < max_tenants;
    if max_tenants < 64 and not saw_all and exists (
      select from tenant_shares s where s.tenant_id = any (groups.tenants) and s.mean_seconds * p_limit > 0.05 * max_tenants) then
      -- What these few would get keeps the others waiting for too long.
      max_tenants := 64;
      until := null;
      continue;
    end if;
    contested := contested or p_fair and groups.tenant_count > 1;
    if groups.tenant_count > 0 then
      if cardinality(groups.types) = 1 and not contested then
        -- Nothing to share out or to merge: in a queue that is nearly empty, most claims find one group.
        picked := picked || array(
          select j.ctid from only jobs j
          where is_ready(j)
            and j.job_type = groups.types[1] and j.tenant_id = groups.tenants[1]
          order by j.priority desc, j.created_at limit p_limit - cardinality(picked) for update skip locked);
      else
        select * into of_these from pick_groups(groups.types, groups.tenants, null, null, p_limit - cardinality(picked), contested);
        picked := picked || of_these.picked;
        has_more := has_more or of_these.has_more;
      end if;
      p_after := groups.tenants[cardinality(groups.tenants)];
      seen := seen + groups.tenant_count;
    end if;
    looked_at := groups.next_types;
    firsts := groups.next_first;
    exit when saw_all or seen >= 64 or cardinality(picked) >= p_limit;
    -- These few had little: as many more as have what is missing, if they have as much each.
    max_tenants := least(4 * max_tenants, 64 - seen, 1 + (p_limit - cardinality(picked)) * seen / greatest(1, cardinality(picked)));
  end loop;
  if saw_all or not contested then
    p_after := null;
  end if;
  has_more := cardinality(picked) < p_limit and (has_more or not saw_all);
end $$;
