-- The id of a row of the audit log after which all rows of a time were written, by the seals; an hour earlier, so that a clock that was set back makes
-- no difference. 0: nothing was sealed before. Across tenants: a seal is of rows of all. Called by engine/access/access_report.py. SQL, because it is the newest of the seals
-- before a time.
select coalesce((
  select s.max_id from atlas.audit_seal s
  where s.snap_at < :at::timestamptz - interval '1 hour'
  order by s.n desc
  limit 1), 0);
