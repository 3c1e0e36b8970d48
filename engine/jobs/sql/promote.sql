-- Due jobs become ready, and held ones whose limit has room. Looks across tenants: time passes for all of them. SQL, because functions do it.
select atlas.promote_due(:limit) + (select r.released from atlas.release_held(0, null) r);
