-- Due times and events -> firings, each with what it starts and its audit event; or nothing, and why. Called by engine/triggers/fire.py.
-- SQL, because a function does it.
select outcome, gone, repeated
from atlas.fire_triggers(
  :triggers, :firings, :jobs, :intents, :secrets, :audit, :events, :by_scheduler, :actor_type, :actor_id);
