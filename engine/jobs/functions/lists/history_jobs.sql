-- Those of these jobs in history, each in the table named beside it, that match the filters of a list: when each was created and finished, and with p_measures how large it is. It runs as
-- the owner of the tables, as history_keys does, and checks the tenant as that does. The conditions are those of job_matches, which takes rows of `jobs` alone: to make one of
-- a row of history would read a large input. Called by list_jobs.
create or replace function history_jobs(
  p_parts text[], p_ids uuid[], p_measures boolean, p_tenant_id uuid, p_statuses text[], p_correlation_id text, p_parent_run_id uuid, p_group_id uuid,
  p_lowest uuid, p_highest uuid, p_job_type text, p_source text, p_created_after timestamptz, p_created_before timestamptz,
  p_finished_after timestamptz, p_finished_before timestamptz, p_worker_id text, p_host_id uuid, p_error_type text, p_error_text text, p_error_pattern text
) returns table (part text, id uuid, created_at timestamptz, finished_at timestamptz, bytes bigint) language plpgsql stable security definer
set search_path from current set jit = off set enable_bitmapscan = off set enable_seqscan = off as $$
#variable_conflict use_column
declare
  is_tenant constant boolean := current_setting('role') = current_schema() || '_tenant';
  asking constant uuid := case when is_tenant then nullif(current_setting('atlas.tenant', true), '')::uuid end;
  tenant constant uuid := coalesce(asking, p_tenant_id);
  held record;
begin
  -- A tenant that is not named sees nothing, as by the policies.
  if (is_tenant and asking is null) or tenant <> p_tenant_id then
    return;
  end if;
  for held in
    select k.part, k.ids
    from (select k.part, array_agg(k.id) as ids from unnest(p_parts, p_ids) k(part, id) group by k.part) k
    where exists (select from pg_inherits i where i.inhrelid = to_regclass(k.part) and i.inhparent = 'jobs'::regclass)
  loop
    begin
      return query execute format($jobs$
        select %1$L::text, j.id, j.created_at, j.finished_at, case when $2 then (
          case when pg_column_compression(j.input) is null then pg_column_size(j.input) else octet_length(j.input::text) end
          + case when pg_column_compression(j.output) is null then pg_column_size(j.output) else octet_length(j.output::text) end
          + case when pg_column_compression(j.error) is null then pg_column_size(j.error) else octet_length(j.error::text) end)::bigint end
        from only %1$I j
        where j.id = any ($1) and ($3 is null or j.tenant_id = $3) and ($4 is null or j.status::text = any ($4))
          and ($5 is null or j.correlation_id = $5) and ($6 is null or j.parent_run_id = $6) and ($7 is null or j.group_id = $7)
          and j.id between $8 and $9 and ($10 is null or j.job_type = $10) and ($11 is null or j.source::text = $11)
          and ($12 is null or j.created_at >= $12) and ($13 is null or j.created_at < $13)
          and ($14 is null or j.finished_at >= $14) and ($15 is null or j.finished_at < $15)
          and ($16 is null or j.claimed_by = $16) and ($17 is null or j.host_id = $17) and ($18 is null or j.error->>'type' = $18)
          and ($19 is null or strpos(lower(j.error->>'message'), lower($19)) > 0) and ($20 is null or error_pattern(j.error->>'message') = $20)$jobs$, held.part)
        using held.ids, p_measures, tenant, p_statuses, p_correlation_id, p_parent_run_id, p_group_id, p_lowest, p_highest, p_job_type, p_source,
          p_created_after, p_created_before, p_finished_after, p_finished_before, p_worker_id, p_host_id, p_error_type, p_error_text, p_error_pattern;
    exception
      when undefined_table then null;  -- dropped meanwhile
    end;
  end loop;
end $$;
