-- A statement for each thing in a schema that drops it, with what depends on it. Called by cli/backup/restore.py, to find out whether
-- a schema is empty, and to empty it after a restore that failed. SQL, because it reads the system catalogs.
select format('drop %s if exists %s cascade', case c.relkind when 'v' then 'view' else 'table' end, c.oid::regclass) as drop
from pg_class c where c.relnamespace = to_regnamespace(:schema) and c.relkind in ('r', 'p', 'v')
union all
select format('drop routine if exists %s cascade', p.oid::regprocedure)
from pg_proc p where p.pronamespace = to_regnamespace(:schema)
union all
select format('drop type if exists %s cascade', t.oid::regtype)
from pg_type t left join pg_class c on c.oid = t.typrelid
where t.typnamespace = to_regnamespace(:schema) and (t.typtype in ('e', 'd') or c.relkind = 'c');
