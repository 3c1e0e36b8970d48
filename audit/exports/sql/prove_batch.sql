-- Within a window of several batches, the first one that reaches up to a row. SQL, because Prisma has no type for transaction
-- ids, and compares no rows of columns.
select n
from atlas.audit_seal
where n >= :first and n <= :last
  and (closes or (to_xid, to_id) >= (:xid::text::xid8, :id))
order by n
limit 1;
