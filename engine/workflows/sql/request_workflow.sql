-- nothing -> draft, for any number of requests. Returns the intents, or none of them. Called by engine/workflows/intents.py.
-- SQL, because a function does it.
select id from atlas.request_workflows(:intents::jsonb, :actor_type) id;
