-- How many rows the audit log has, if none was ever sealed or signed; no row otherwise. Read by verify.py: never_sealed.
-- It counts the rows of all tenants: the audit log has one tree. SQL, because the count depends on two other tables.
select (select count(*) from atlas.audit_log)
where not exists (select from atlas.audit_seal)
  and not exists (select from atlas.audit_checkpoint);
