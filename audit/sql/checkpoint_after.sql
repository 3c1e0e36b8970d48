-- The newest note of a tree that has at least this many leaves.
select size, note from atlas.audit_checkpoint where size >= :size order by size desc, key_name limit 1;
