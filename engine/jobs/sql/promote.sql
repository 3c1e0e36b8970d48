-- Due jobs become ready. Looks across tenants: time passes for all of them. SQL, because a function does it.
select atlas.promote_due(:limit);
