-- How the tree of a seal differs from the one before it with the seal's leaves appended, as the end of a sentence; null where it does not.
-- Called by audit_seal_is_checked.
create or replace function sealed_tree_differs(p_seal audit_seal, p_last audit_seal) returns text language plpgsql stable
set search_path from current as $$
declare
  tree record;
begin
  if octet_length(p_seal.leaf_hashes) <> p_seal.count * 32
     or substring(p_seal.leaf_hashes from (p_seal.count - 1) * 32 + 1) <> sha256('\x000102'::bytea || p_seal.header) then
    return 'its last leaf is not its header''s';
  end if;
  select * into tree from tree_grown(p_seal.first_index, coalesce(p_last.frontier, ''), p_seal.leaf_hashes) t;
  return case when tree.frontier <> p_seal.frontier or tree.root <> p_seal.root then 'its root is not that of its leaves' end;
end $$;
