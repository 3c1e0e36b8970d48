-- What the audit log lacks, as the signer found it last. SQL, because the typed client takes longer to load than `atlas status` runs.
select value->>'message' from atlas.system_state where key = 'audit_lost_end';
