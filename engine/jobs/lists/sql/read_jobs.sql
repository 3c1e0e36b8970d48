-- Jobs by their ids, of one tenant or of all, as the view shown_jobs shows them; without `whole` the beginning of an error, and the first step that was undone. Those that are not in the
-- hot table are looked for in the few tables of history that may hold them; the views would look into every one. Called by engine/jobs/lists/find.py. The fields of its JobRow are the columns.
-- SQL, because a command that lists jobs has ended before the typed client is imported.
select :columns,
  case when j.status = 'failed' and j.dead_lettered_at is not null then 'dead_letter'
       when j.status = 'queued' and j.next_retry_at > statement_timestamp() then 'waiting' else j.status::text end as shown_status,
  case when j.retries_chosen then j.max_retries
       else coalesce((select y.max_retries from atlas.job_types y where y.key = j.job_type), j.max_retries) end as max_retries,
  case when :whole::boolean then j.error else jsonb_strip_nulls(jsonb_build_object(
    'message', left(j.error->>'message', 300), 'type', left(j.error->>'type', 200), 'outcome', j.error->'outcome',
    'compensated', '[]'::jsonb || (j.error->'compensated'->0))) end as error
from (
  select h.* from only atlas.jobs h where h.id = any (:ids::uuid[])
  union all
  select h.* from atlas.history_rows(array(
    select u.id from unnest(:ids::uuid[]) u(id) where not exists (select from only atlas.jobs a where a.id = u.id))) h) j
where :tenant_id::uuid is null or j.tenant_id = :tenant_id;
