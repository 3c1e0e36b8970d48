-- Whether a seal's window, or an earlier one, holds the rows of a transaction.
select pg_visible_in_snapshot(:xid::text::xid8, snap_cur) from atlas.audit_seal where n = :n;
