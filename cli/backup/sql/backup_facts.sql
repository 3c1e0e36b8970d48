-- The database's clock and the length of the audit log, for the manifest of a backup. Called by cli/backup/make.py. SQL,
-- because it reads the database's clock.
select clock_timestamp() as now, coalesce((select max(id) from atlas.audit_log), 0) as audit_rows;
