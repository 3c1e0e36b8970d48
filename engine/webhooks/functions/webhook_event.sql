-- The name under which webhooks get what an audit row says; null where it is none of theirs. The job of a run has the type ENGINE_RUN.
-- engine/webhooks/events.py has the list. Called by take_webhook_events.
create or replace function webhook_event(p_entity text, p_action text, p_level audit_level, p_meta jsonb, p_job_type text)
returns text language sql immutable
return case p_entity
  when 'job' then
    case when p_job_type = 'ENGINE_RUN' then 'run.' else 'job.' end || case job_event_kind(p_action, p_level, p_meta)
      when 'enqueued' then 'created'
      when 'succeeded' then 'succeeded'
      when 'failed' then 'failed'
      when 'dead_lettered' then 'failed'
      when 'canceled' then 'canceled'
      when 'retried' then 'retry_scheduled'
      when 'reopened' then 'retried' end
  when 'intent' then case p_action
    when 'INTENT_REQUESTED' then 'run.requested'
    when 'INTENT_BLOCKED' then 'run.blocked'
    when 'INTENT_WITHDRAWN' then 'run.canceled' end
  when 'approval' then case p_action
    when 'APPROVAL_REQUESTED' then 'approval.requested'
    when 'APPROVAL_DECIDED' then 'approval.decided' end
end;
