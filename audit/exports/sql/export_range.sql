-- The seals made at or after one time and before another; the last one is the next that a checkpoint covers. No first or
-- no last: none was made in that time. SQL, because each bound is found by a subquery.
select
  case when :since::timestamptz is null then 1 else (select n from atlas.audit_seal where sealed_at >= :since order by n limit 1) end as first,
  case when :until::timestamptz is null then (select max(n) from atlas.audit_seal) else (
    select coalesce((
      select s.n from atlas.audit_seal s
      where s.n >= before.n and exists (select from atlas.audit_checkpoint c where c.size = s.size)
      order by s.n limit 1), (select max(n) from atlas.audit_seal))
    from (select n from atlas.audit_seal where sealed_at < :until order by n desc limit 1) before) end as last;
