-- The tables whose rows move with a tenant, in an order in which they can be filled: a table comes after those that it refers to. The rows of some
-- belong to a tenant by their job. What is left out belongs to the installation: the audit log, which is exported with its proofs,
-- sign-ins, grants to logins of this server, and what is counted or shared out here. Called by tenant_rows and import_rows.
create or replace function tenant_tables() returns table (name text, is_by_job boolean) language sql stable
set search_path from current as $$
  select c.relname::text, not k.has_tenant
  from pg_class c
  cross join lateral (
    select bool_or(a.attname = 'tenant_id') as has_tenant, bool_or(a.attname = 'job_id') as has_job
    from pg_attribute a where a.attrelid = c.oid and not a.attisdropped) k
  where c.relnamespace = current_schema()::text::regnamespace and c.relkind = 'r' and c.relname !~ '^audit_'
    -- history is read with jobs
    and not exists (select from pg_inherits i where i.inhrelid = c.oid)
    and c.relname <> all ('{job_counts,dead_letters,dead_letter_causes,tenant_shares,limit_events,enqueue_grants,history_contents}')
    and (k.has_tenant or (k.has_job and c.relname in ('job_attempts', 'usage_costs')))
  order by (select count(*) from pg_constraint f where f.conrelid = c.oid and f.contype = 'f'), c.relname
$$;
