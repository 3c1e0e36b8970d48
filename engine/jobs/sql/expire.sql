-- queued -> canceled, for jobs that were not started in time. Looks across tenants: time passes for all of them. SQL, because a
-- function does it.
select atlas.expire_jobs(:limit, true);
