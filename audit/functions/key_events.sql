-- The events that name the key of an epoch, the oldest first. Called by audit_name_key, audit_prune and audit/sealing/sql/checkpoint_head.sql.
create or replace function key_events(p_epoch int) returns setof audit_log language sql stable
set search_path from current as $$
  select a.*
  from audit_log a
  where a.entity_id = p_epoch::text and a.entity_type = 'audit_epoch' and a.action in ('AUDIT_EPOCH', 'AUDIT_KEY')
    and a.tenant_id is null and a.meta ? 'key'
  order by a.epoch, a.id
$$;
