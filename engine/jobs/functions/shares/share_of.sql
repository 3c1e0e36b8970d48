-- How a tenant stands among those that have ready jobs of a type: its percentage of the worker time of the last minute, the one that its
-- weight gives it, how many are served before it, and how many there are. Of many, two hundred are looked at.
-- Runs as the owner for a tenant too, and returns nothing but these numbers. Called by engine/jobs/explain/explain_job.py.
create or replace function share_of(p_tenant uuid, p_type text, out used int, out share int, out before int, out tenants int)
language plpgsql volatile security definer
set search_path from current as $$
declare
  ready constant uuid[] := (ready_groups(array[p_type], '00000000-0000-0000-0000-000000000000', null, 200,
    array(select p.tenant_id from pauses p where p.kind = 'tenant' and (p.until is null or p.until > clock_timestamp())))).tenants;
  here constant uuid[] := case when p_tenant = any (ready) then ready else ready || p_tenant end;
begin
  tenants := cardinality(here);
  if tenants < 2 then
    return;
  end if;
  select round(100 * sum(r.seconds) filter (where r.tenant_id = p_tenant) / nullif(sum(r.seconds), 0)) into used
  from (select s.tenant_id, faded(s.recent_seconds, s.charged_at) as seconds from tenant_shares s) r;
  select round(100 * sum(w.weight) filter (where w.id = p_tenant) / sum(w.weight)) into share
  from (select t.id, coalesce((t.limits->>'weight')::float8, 1) as weight from tenants t where t.id = any (here)) w;
  select count(*) into before
  from shares(here, true) o
  join shares(array[p_tenant], true) m on o.tenant_id <> m.tenant_id and o.at < m.at;
end $$;
