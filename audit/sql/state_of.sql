-- The digest of what an entity means now; no row: it is gone. SQL, because a function makes the digest.
select digest from atlas.state_digests(:kind, :id, :tenant_id);
