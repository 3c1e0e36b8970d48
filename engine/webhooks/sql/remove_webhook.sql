-- A webhook -> nothing. The caller has locked the row. Called by engine/webhooks/store.py.
delete from atlas.webhooks
where id = :id;
