-- Stores what became of the copy at a place: the size of the copied tree and since when, or the error and since when there is one. Called by
-- audit/outside/copy.py. SQL, because it is on the database's clock.
update atlas.system_state s
set value = s.value || jsonb_build_object(:place::text, case
  when :value::text::jsonb->>'error' is null then :value::text::jsonb || jsonb_build_object('at', clock_timestamp())
  else coalesce(s.value->:place, '{}') || jsonb_build_object('error', :value::text::jsonb->>'error',
    'failing_since', coalesce(s.value->:place->>'failing_since', clock_timestamp()::text)) end)
where s.key = 'checkpoint_copies';
