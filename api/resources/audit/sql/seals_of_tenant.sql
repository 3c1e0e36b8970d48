-- A page of the seals that hold rows of a tenant, newest first, with how many. Seals belong to the installation: their sizes and
-- roots are in the signed checkpoints, too. SQL, because it leaves out the hashes of the leaves, which are most of a seal.
select s.n, s.epoch, s.first_index, s.count, s.size, s.sealed_at, encode(s.root, 'hex') as root, t.count as rows
from atlas.audit_seal_tenant t
join atlas.audit_seal s on s.n = t.n
where t.tenant_id = :tenant_id
  and t.n < :before
order by t.n desc
limit :limit;
