-- What the audit log lacks, as the signer found it last, for `atlas status`. SQL, because the typed client and the audit log take
-- longer to load than the command runs.
select value->>'message' from atlas.system_state where key = 'audit_lost_end';
