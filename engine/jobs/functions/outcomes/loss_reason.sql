-- Why an attempt was lost, in words, by what its worker's watchdog reported. Other tenants' jobs are not named, nor their code.
create or replace function loss_reason(p_stall jsonb, p_suspect uuid, p_job uuid) returns text language sql stable parallel safe
return case when p_stall is null then 'The lease expired before an outcome was recorded.'
  else format('The worker''s event loop did not turn for %s s while this job was running, so that the lease expired. ',
      round(extract(epoch from clock_timestamp() - (p_stall->>'since')::timestamptz)))
    || case when p_suspect = p_job then E'The job''s own handler kept it.\n' || coalesce(p_stall->>'stack', '')
            when p_suspect is not null then 'The handler of another job kept it.'
            else 'Which handler kept it is not known.' end
  end;
