-- offline -> online where the time it was taken offline for is over. SQL, because a function does it.
select atlas.expire_gate();
