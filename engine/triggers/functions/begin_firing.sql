-- Whether triggers may fire now, and what time it is. Begins every firing transaction of schedulers of the version before, which may still
-- run; see fire_triggers for those of this one.
-- A session that goes silent within one is ended (limit_idle), and the gate and the rows are free again.
-- Locks: gate. Called by schedulers of the version before.
create or replace function begin_firing(out is_open boolean, out now timestamptz, out online_since timestamptz) language plpgsql volatile
set search_path from current as $$
begin
  is_open := may_claim(null);
  now := schedule_clock();
  online_since := (select (value->>'since')::timestamptz from system_state where key = 'atlas_online');
end $$;
