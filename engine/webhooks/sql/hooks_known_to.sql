-- The inbound hooks whose secret a token knows, or one that was created with it, and so on: it added the hook or rotated the secret, and no rotation since has
-- ended that secret. Names no tenant: a tenant sees its own hooks, an operator those of all. Called by engine/webhooks/inbound.py. SQL, because it follows tokens to
-- their makers and hooks to their events.
with recursive line as (
  select t.id, t.prefix from atlas.api_tokens t where t.id = :token_id
  union
  select t.id, t.prefix
  from line l
  join atlas.api_tokens t on t.made_with = l.id
)
select h.id
from atlas.inbound_hooks h
where exists (
  select from atlas.audit_log a
  join line l on l.prefix = a.meta->>'token'
  where a.entity_id = h.id::text
    and a.entity_type = 'inbound_hook'
    and a.action in ('HOOK_ADDED', 'HOOK_SECRET_ROTATED')
    and not exists (
      select from atlas.audit_log b
      where b.entity_id = a.entity_id
        and b.entity_type = 'inbound_hook'
        and b.action = 'HOOK_SECRET_ROTATED'
        and b.id > a.id
        and b.created_at + (b.meta->>'overlap_seconds')::float8 * interval '1 second' <= clock_timestamp()))
order by h.id;
