-- The frontier and the root of a Merkle tree (RFC 9162) of p_size leaves after p_leaves were appended; the byte strings hold hashes
-- of 32 bytes each. The same as audit/verifier/tree.py, level by level: two neighbours are 64 bytes in a row. Called by sealed_tree_differs.
create or replace function tree_grown(p_size bigint, p_frontier bytea, p_leaves bytea, out frontier bytea, out root bytea)
language plpgsql immutable
set search_path from current set plan_cache_mode = force_generic_plan set jit = off as $$
declare
  -- the new nodes of a level, the number of nodes before them, and the part of the old frontier at this level and above
  nodes bytea := p_leaves;
  size bigint := p_size;
  above bytea := p_frontier;
  node_count int;
begin
  frontier := ''::bytea;
  while octet_length(nodes) > 0 loop
    if size & 1 = 1 then
      nodes := substring(above from octet_length(above) - 31) || nodes;
      above := substring(above for octet_length(above) - 32);
    end if;
    node_count := octet_length(nodes) / 32;
    if node_count & 1 = 1 then
      frontier := substring(nodes from node_count * 32 - 31) || frontier;
    end if;
    select coalesce(string_agg(sha256('\x01'::bytea || substring(nodes from g * 64 + 1 for 64)), ''::bytea order by g), ''::bytea) into nodes
    from generate_series(0, node_count / 2 - 1) g;
    size := size >> 1;
  end loop;
  frontier := above || frontier;
  for at in reverse octet_length(frontier) / 32 .. 1 loop
    root := case when root is null then substring(frontier from at * 32 - 31 for 32)
                 else sha256('\x01'::bytea || substring(frontier from at * 32 - 31 for 32) || root) end;
  end loop;
end $$;
