-- The bytes of an audit row, made from the very values that go into its search columns. Called by every function and statement
-- that writes an audit row in SQL.
create or replace function audit_body(
  tenant_id uuid, actor_type text, actor_id text, level text, action text, entity_type text, entity_id text, message text,
  meta jsonb
) returns bytea language sql immutable parallel safe
return convert_to(jsonb_build_object(
    'tenant_id', $1, 'actor_type', $2, 'actor_id', $3, 'level', $4, 'action', $5,
    'entity_type', $6, 'entity_id', $7, 'message', $8, 'meta', $9)::text, 'UTF8');
