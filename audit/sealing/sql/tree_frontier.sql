-- A frontier that holds one perfect subtree: any from its end on, until its right neighbour is full as well. SQL, because it
-- leaves out the hashes of the leaves, which are most of a seal.
select size, frontier
from atlas.audit_seal
where size >= :low and size < :high and size <= :limit
order by size
limit 1;
