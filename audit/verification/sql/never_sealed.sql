-- How many rows the audit log has and the age of the oldest in seconds, if none was ever sealed or signed; no row otherwise. Read by verify.py:
-- never_sealed. It counts the rows of all tenants: the audit log has one tree. SQL, because the count depends on two other tables.
select count(*) as rows, coalesce(extract(epoch from clock_timestamp() - min(a.created_at)), 0)::float8 as age
from atlas.audit_log a
having not exists (select from atlas.audit_seal)
  and not exists (select from atlas.audit_checkpoint);
