"""What keeps the audit log append-only: whatever opens it is found."""

from atlas.audit.guards import FUNCTIONS, check_guards, installed_bodies

EMPTY = "returns trigger language plpgsql set search_path from current as $$ begin return null; end $$"
OPENED = {
    "alter table atlas.audit_log disable trigger audit_log_append_only": "audit_log_append_only of audit_log is disabled",
    "alter table atlas.audit_seal enable trigger audit_seal_no_truncate": "audit_seal_no_truncate of audit_seal is dis",
    "alter table atlas.audit_epoch enable replica trigger audit_epoch_append_only": "audit_epoch_append_only of audit_epoch is disabled",
    "drop trigger audit_checkpoint_append_only on atlas.audit_checkpoint": "audit_checkpoint_append_only of audit_chec",
    "drop trigger audit_private_no_update on atlas.audit_private": "audit_private_no_update of audit_private is missing",
    "drop function atlas.audit_is_append_only cascade": "The function audit_is_append_only of the audit log is missing",
    f"create or replace function atlas.audit_is_append_only() {EMPTY}": "The function audit_is_append_only of the audit",
    "alter function atlas.audit_is_append_only() set search_path = public": "The function audit_is_append_only of the",
    "create or replace trigger audit_log_append_only before update or delete on atlas.audit_log for each row"
    " when (old.id < 0) execute function atlas.audit_is_append_only()": "audit_log_append_only of audit_log",
    "create or replace trigger audit_log_append_only before update of id on atlas.audit_log for each row"
    " execute function atlas.audit_is_append_only(); alter table atlas.audit_log"
    " enable always trigger audit_log_append_only": "audit_log_append_only of audit_log was changed",
    "create trigger hidden before insert on atlas.audit_log for each row"
    " execute function suppress_redundant_updates_trigger()": "The trigger hidden of audit_log is not Atlas's",
    "create rule nothing as on insert to atlas.audit_log do instead nothing": "The rule nothing of audit_log is not",
    "grant update on atlas.audit_log to atlas_engine": "The role atlas_engine has the right to update on audit_log",
    "grant update (message) on atlas.audit_log to atlas_tenant": "The role atlas_tenant has the right to update on audit",
    "grant delete on atlas.audit_private to public": "The role atlas_engine has the right to delete on audit_private",
    "grant truncate on atlas.audit_seal to atlas_engine": "has the right to truncate on audit_seal",
    "grant insert on atlas.audit_log to atlas_engine": "has the right to insert (created_at) on audit_log",
    "grant insert on atlas.audit_pruned to atlas_engine": "has the right to insert on audit_pruned",
    "grant execute on function atlas.audit_prune to public": "has the right to execute on audit_prune",
    "alter table atlas.audit_log owner to atlas_engine": "The role atlas_engine has the right to trigger on audit_log",
}


async def test_an_installation_is_guarded(conn):
    assert await check_guards(conn) == []
    assert installed_bodies().keys() == set(FUNCTIONS)


async def test_a_guard_that_was_opened_is_found(owner):
    for opened, found in OPENED.items():
        transaction = owner.transaction()
        await transaction.start()
        await owner.execute(opened)
        messages = [finding.message for finding in await check_guards(owner)]
        await transaction.rollback()
        assert any(found in message for message in messages), (opened, messages)
