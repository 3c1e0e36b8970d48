-- The job types that every installation knows, before any worker has published its own.
-- Called by engine/sql/admit.sql and by enqueue.
create or replace function builtin_types() returns text[] language sql immutable parallel safe
return array['EMAIL_SEND', 'ENGINE_RUN', 'HTTP_CALL', 'SERVER_RESTART', 'SERVER_START', 'SERVER_STOP'];
