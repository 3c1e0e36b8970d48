-- offline -> online where the time it was taken offline for is over.
select atlas.expire_gate();
