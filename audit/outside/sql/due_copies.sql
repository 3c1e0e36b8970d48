-- The newest checkpoint for each place that lacks it and got its last copy longer ago than :every, or could not be reached. Called by
-- audit/outside/copy.py. SQL, because it compares on the database's clock.
select p.place, c.size, c.note, split_part(c.note, E'\n', 1) as log
from unnest(:places::text[]) p(place)
cross join lateral (select k.size, k.note from atlas.audit_checkpoint k order by k.size desc limit 1) c
left join atlas.system_state s on s.key = 'checkpoint_copies'
cross join lateral (select s.value->p.place as copied) v
where v.copied is null
   or v.copied->>'error' is not null
   or ((v.copied->>'size')::bigint is distinct from c.size
       and (v.copied->>'at')::timestamptz <= clock_timestamp() - :every::interval);
