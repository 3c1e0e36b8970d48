-- Ends a pause: what it held is claimed again, in its order. Its paused runs are due again immediately, the first thousand
-- here and the others by the sweep. Returns its row, or none where there is no such pause. Runs as the owner of the tables, like
-- pause_target. Locks: gate, job rows (skipping locked ones). Called by engine/jobs/switches/pauses.py and end_pauses.
create or replace function resume_target(p_id uuid, p_reason text, p_actor_type text, p_actor_id text, p_meta jsonb)
returns setof pauses language plpgsql volatile security definer
set search_path from current as $$
declare
  gone pauses;
  facts jsonb;
begin
  perform lock_gate();
  delete from pauses p where p.id = p_id returning * into gone;
  if not found then
    return;
  end if;
  perform check_pause_right(gone.kind, gone.tenant_id);
  update system_state set value = value - 'pauses'
  where key = 'atlas_online' and not exists (select from pauses);
  facts := p_meta || jsonb_strip_nulls(jsonb_build_object('pause', gone.id, 'since', gone.paused_at, 'until', gone.until))
    || '{"pause_state": null}';
  perform record_event(gone.tenant_id, p_actor_type, p_actor_id, 'info', 'RESUMED', gone.kind, gone.target, coalesce(p_reason, ''), facts);
  if gone.kind = 'workflow' then
    perform resume_runs(1000);
  elsif gone.kind = 'trigger' then
    perform note_outage(gone.target::uuid, gone.paused_at, least(gone.until, clock_timestamp()));
  end if;
  perform pg_notify(current_schema() || '_gate', '');
  return next gone;
end $$;
