-- The parts of history, or the one named :part, each with its tables, and a digest of its changes and columns: two backups in which it is the same hold the same rows. It is null where changes are not
-- noted. Called by cli/backup/history.py. SQL, because it reads the system catalogs.
select h.part as name, array_agg(h.name order by h.name) as tables,
  case when bool_and(h.is_watched) and exists (select from atlas.history_changes c where c.part = h.part) then encode(sha256(convert_to(concat_ws(E'\n',
    (select string_agg(c.id::text, ' ' order by c.id) from atlas.history_changes c where c.part = h.part),
    string_agg(h.columns, E'\n' order by h.name)), 'UTF8')), 'hex') end as version
from (
  select c.relname::text as name, substring(c.relname::text from '_history_((?:kept|[0-9]+)_[0-9]{8})$') as part,
    (select count(*) = 2 from pg_trigger t
     where t.tgrelid = c.oid and t.tgname in ('history_filled', 'history_changed') and t.tgenabled in ('O', 'A')) as is_watched,
    (select string_agg(concat_ws(' ', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid)), E'\n' order by a.attname)
     from pg_attribute a
     left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid
  where c.relnamespace = to_regnamespace(:schema) and i.inhparent::regclass in (
    select to_regclass(format('%I.%I', :schema::text, t.name))
    from (select 'jobs' as name union all select t.name from atlas.history_tables() t) t)) h
where h.part is not null and (:part::text is null or h.part = :part)
group by h.part
order by h.part;
