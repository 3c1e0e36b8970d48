-- running -> queued until what they wait for comes, or immediately where it has come already. The caller holds the rows.
-- SQL, because a function does it.
select atlas.settle_runs(:runs, :certain, :at_once);
