-- The functions of Atlas's schema, as the catalogs have them: name, language, text, and the search path that they set. The text of one that is
-- kept parsed is empty. Read by audit/guards.py. SQL, because it reads the catalogs.
select p.proname::text as name, l.lanname::text as language, p.prosrc as body,
  (select c from unnest(p.proconfig) c where c like 'search\_path=%') as path
from pg_proc p
join pg_language l on l.oid = p.prolang
where p.pronamespace = to_regnamespace(:schema)
  and p.prokind in ('f', 'p')
  and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e');
