-- One approval, held until the decision commits. Without a tenant it looks across all (operators).
-- SQL, because Prisma has no row locks.
select a.id, a.tenant_id, a.run_id, a.kind::text, a.step, a.title, a.requested_by, a.status::text, a.input_hash, a.subject,
  a.expires_at <= clock_timestamp() as is_late,
  -- what the intent says today: an approval is for the input it was asked for
  (select i.input_hash = sha256(convert_to(i.input::text, 'UTF8')) and a.input_hash = atlas.review_hash(i.input, a.subject)
   from atlas.intents i where i.id = a.run_id) as still_the_same
from atlas.approvals a
where a.id = :id
  and (:tenant_id::uuid is null or a.tenant_id = :tenant_id)
  and a.tenant_id <> all (atlas.moving_tenants())
for update;
