-- The note of a tree of exactly this many leaves.
select size, note from atlas.audit_checkpoint where size = :size order by key_name limit 1;
