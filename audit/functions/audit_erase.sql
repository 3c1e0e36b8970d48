-- Deletes a person's values: those equal to p_subject, and the free texts (fields p_texts) of the same entities. Without a subject,
-- all values of a tenant's p_entities; without these too, up to a thousand values of the tenant.
-- One audit row for each tenant and each thousand values names the commitments that no longer have a value.
-- Called by audit/personal_data.py and remove_tenant_rows.
create or replace function audit_erase(
  p_subject text, p_tenant uuid, p_texts text[], p_actor_type text, p_actor_id text, p_meta jsonb,
  p_entities text[] default null
) returns int language plpgsql security definer
set search_path from current as $$
declare
  gone int;
begin
  with theirs as (
    select ctid, tenant_id, entity_id from audit_private
    where lower(value) = lower(p_subject) and field <> 'subject' and (p_tenant is null or tenant_id = p_tenant)
    union all
    select ctid, tenant_id, entity_id from audit_private where entity_id = any (p_entities) and tenant_id = p_tenant
    union all
    (select ctid, tenant_id, entity_id from audit_private
     where p_subject is null and p_entities is null and tenant_id = p_tenant limit 1000)),
  erased as (
    -- A value is never changed, so its place is its name for as long as this statement runs.
    delete from audit_private p
    where p.ctid = any (array(
      select t.ctid from theirs t
      union
      select o.ctid from theirs t
      join audit_private o on o.entity_id = t.entity_id and o.tenant_id is not distinct from t.tenant_id
      where o.field = any (p_texts)))
    returning p.tenant_id, p.field, p.commitment),
  numbered as (
    select *, (row_number() over (partition by tenant_id order by commitment) - 1) / 1000 as part from erased),
  events as (
    select tenant_id, count(*)::text || ' personal values were erased' as message,
      p_meta || jsonb_build_object('values', count(*), 'fields', jsonb_agg(distinct field),
        'commitments', jsonb_agg(encode(commitment, 'hex'))) as meta
    from numbered group by tenant_id, part),
  recorded as (
    insert into audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
    select tenant_id, p_actor_type::actor_type, p_actor_id, 'warn', 'ERASED', 'audit_private', 'subject', message, meta,
      audit_body(tenant_id, p_actor_type, p_actor_id, 'warn', 'ERASED', 'audit_private', 'subject', message, meta)
    from events)
  select count(*) into gone from erased;
  return gone;
end $$;
