-- What an action does to jobs, and what became of each. Called by engine/jobs/actions/change_many.py and step_bulk_action.
create or replace function change_jobs(p_action text, p_ids uuid[], p_tenant uuid, p_actor_type text, p_actor_id text, p_meta jsonb)
returns table (id uuid, verdict text) language plpgsql volatile
set search_path from current as $$
begin
  case p_action
    when 'retry' then return query select * from retry_jobs(p_ids, p_tenant, p_actor_type, p_actor_id, p_meta);
    when 'cancel' then return query select * from cancel_jobs(p_ids, p_tenant, p_actor_type, p_actor_id, p_meta);
    when 'delete' then return query select * from delete_jobs(p_ids, p_tenant, p_actor_type, p_actor_id, p_meta);
    when 'discard' then return query select * from discard_jobs(p_ids, p_tenant, p_actor_type, p_actor_id, p_meta);
  end case;
end $$;
