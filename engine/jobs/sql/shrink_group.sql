-- Jobs that were not made, because others hold their dedupe keys, are not members. In the transaction that makes the group. SQL,
-- because it subtracts.
update atlas.job_groups
set total = total - :strangers::int
where id = :id;
