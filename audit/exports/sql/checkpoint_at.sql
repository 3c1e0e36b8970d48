-- The note of a tree of exactly this many leaves. SQL, because Prisma cannot read times that are in no
-- calendar, and forged ones may be such.
select size, note from atlas.audit_checkpoint where size = :size order by key_name limit 1;
