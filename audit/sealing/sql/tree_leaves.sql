-- The leaf hashes from one index to another. A batch has at most 4,097 leaves, which bounds the range of seals. SQL, because it
-- cuts the leaves out of their seals and joins them.
select string_agg(
  substr(leaf_hashes, greatest(:low - first_index, 0)::int * 32 + 1,
         (least(:high, size) - greatest(:low, first_index))::int * 32),
  ''::bytea order by first_index) as leaves
from atlas.audit_seal
where size > :low and size < :high + 4097 and first_index < :high;
