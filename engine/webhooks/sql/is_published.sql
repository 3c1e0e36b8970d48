-- Whether an event of this id is stored. Called by engine/webhooks/inbound.py.
select exists (select from atlas.events where id = :id);
