-- The bytes of audit rows that differ only in their entity and tenant, in two parts: opening || entity id || closing || tenant id
-- || '"}'. A row costs 0.4 us this way, and 10 us by audit_body, which a batch of plain successes would feel.
-- Called by finish.
create or replace function audit_body_frame(
  actor_type text, actor_id text, level text, action text, entity_type text, message text, meta jsonb,
  out opening text, out closing text
) language sql immutable parallel safe
return (
  format('{"action":%s,"actor_id":%s,"actor_type":%s,"entity_id":"', to_json($4), to_json($2), to_json($1)),
  format('","entity_type":%s,"level":%s,"message":%s,"meta":%s,"tenant_id":"', to_json($5), to_json($3), to_json($6), $7));
