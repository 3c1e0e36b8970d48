-- Who made a token: the one that was sent when it was asked for; none where it was made on the machine itself. Who asked for
-- work may not decide about it with a token that goes back to theirs. No foreign key: tokens are revoked, never deleted.
alter table api_tokens add column made_with uuid;

-- Those that are there already: the account knows.
update api_tokens t
set made_with = m.id
from audit_log a, api_tokens m
where a.entity_type = 'token'
  and a.entity_id = t.id::text
  and a.action = 'TOKEN_ADDED'
  and m.prefix = a.meta->>'token';
