-- The input schema of what a trigger starts, and whether its formats are enforced, as they are in schemas that people write.
-- No row: nothing is published about it, or it is a workflow in code, whose model checks its input.
-- Called by engine/triggers/target.py. SQL, because it looks in tables that no relation joins.
select y.input_schema, exists (select from atlas.job_definitions d where d.key = y.key) as has_formats
from atlas.job_types y
where y.key = :job_type::text
union all
(select w.input_schema, true
 from atlas.workflows w
 where w.key = :workflow::text
   and (w.tenant_id = :tenant_id or w.tenant_id is null)
   and w.kind = 'declared'
   and not exists (select from atlas.workflows c where c.key = w.key and c.kind = 'code')
 order by w.tenant_id nulls last, w.version desc
 limit 1);
