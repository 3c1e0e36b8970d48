-- Raises a violation of the key of `jobs` where a job in history has one of these ids: no index spans the tables. Called by enqueue_many, for ids that are
-- old enough.
create or replace function refuse_used_ids(p_ids uuid[]) returns void language plpgsql stable
set search_path from current set plan_cache_mode = force_custom_plan set enable_seqscan = off as $$
declare
  used constant uuid := (select h.id from history_rows(p_ids) h limit 1);
begin
  if used is not null then
    raise exception 'duplicate key value violates unique constraint "jobs_pkey"'
      using errcode = 'unique_violation', constraint = 'jobs_pkey', table = 'jobs', detail = format('Key (id)=(%s) already exists.', used);
  end if;
end $$;
