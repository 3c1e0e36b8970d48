-- Append-only, for every role: update, delete and truncate are refused to superusers too, also in replica mode. One exception:
-- the owner may delete rows of audit_log under an order in audit_pruned that the same transaction wrote (audit_prune).
create or replace function audit_is_append_only() returns trigger language plpgsql
set search_path from current as $$
begin
  if tg_op = 'DELETE' and tg_table_name = 'audit_log' then
    if exists (
      select from audit_pruned p
      join audit_seal s on s.n = p.through_seal
      where p.xid = pg_current_xact_id()
        and pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'usage')
        and (old.epoch < s.epoch or (old.epoch = s.epoch and (s.rest or pg_visible_in_snapshot(old.xid, s.snap_cur))))
    ) then
      return old;
    end if;
  end if;
  raise exception '% is append-only: % is refused', tg_table_name, lower(tg_op)
    using errcode = 'insufficient_privilege', hint = 'Add a new row that corrects the old one.';
end $$;

select secure_trigger(name, name || '_append_only',
  format('before update or delete on %I for each row execute function audit_is_append_only()', name), p_always => true),
  secure_trigger(name, name || '_no_truncate',
  format('before truncate on %I for each statement execute function audit_is_append_only()', name), p_always => true)
from unnest(array['audit_log', 'audit_epoch', 'audit_seal', 'audit_seal_tenant', 'audit_checkpoint', 'audit_pruned', 'audit_moved']) t(name);

-- A personal value may be deleted, but never become another one.
select secure_trigger('audit_private', 'audit_private_no_update',
  'before update on audit_private for each row execute function audit_is_append_only()', p_always => true);
select secure_trigger('audit_private', 'audit_private_no_truncate',
  'before truncate on audit_private for each statement execute function audit_is_append_only()', p_always => true);
