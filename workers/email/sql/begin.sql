-- (nothing) -> begun, or an entry that is there already; and a send slot. See the function. SQL, because a function does it.
select held, wait, sender, draft_id
from atlas.mail_begin(
  :job_id, :worker, :attempt, :provider, :sender, :buckets::text[], :per_minute::int[], :at_once::int[], :early);
