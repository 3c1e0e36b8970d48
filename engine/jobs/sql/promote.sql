-- Due jobs become ready. Looks across tenants: time passes for all of them.
select atlas.promote_due(:limit);
