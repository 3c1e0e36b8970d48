-- Due jobs become ready, and held ones whose limit has room. Looks across tenants: time passes for all of them. SQL, because functions do it.
select (select p.moved from atlas.promote_due(:limit) p) + (select r.released from atlas.release_held(0, null) r);
