-- nothing -> stored, and every queued run that waits for it -> due. Returns how many runs were woken.
-- SQL, because a function does it.
select atlas.publish_event(:id, :tenant_id, :name, :context::text::jsonb, :run_id, :created_by, :correlation_id);
