-- One event, for verbs whose change and event are two statements of one transaction. SQL, because it writes to two tables in
-- one statement, on the way of every change.
with
-- the personal values that the event only commits to
kept as (
  insert into atlas.audit_private (commitment, tenant_id, entity_id, field, salt, value)
  select decode(p.commitment, 'hex'), :tenant_id, p.entity_id, p.field, decode(p.salt, 'hex'), p.value
  from jsonb_to_recordset(:private::text::jsonb) p(commitment text, entity_id text, field text, salt text, value text)
)
insert into atlas.audit_log (tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta, body)
values (:tenant_id, :actor_type::text::atlas.actor_type, :actor_id, :level::text::atlas.audit_level, :action, :entity_type, :entity_id,
        :message, :meta::text::jsonb, :body)
returning id;
