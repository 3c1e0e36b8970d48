-- running -> queued until what they wait for comes, or at once where it has come already. The caller holds the rows.
select atlas.settle_runs(:runs, :certain, :at_once);
