-- True where the gate was never turned by anyone: a new installation.
-- A row that got lost afterwards leaves its events behind, and stays closed until someone opens it. SQL, because it asks two
-- tables in one snapshot.
select not exists (select from atlas.system_state where key = 'atlas_online')
   and not exists (select from atlas.audit_log where action in ('ATLAS_ONLINE', 'ATLAS_OFFLINE'));
