"""What guards the audit log: whatever opens it is found, by what `atlas migrate` leaves in a new database."""

import pytest

from atlas.audit.guards import EXPECTED, check_guards, read_guards
from atlas.db.login import make_login
from atlas.db.sql_functions import changed_functions
from tests.audit.write_guards import written
from tests.support import some

EMPTY = "returns trigger language plpgsql set search_path from current as $$ begin return null; end $$"
APPEND_ONLY = "before update or delete on atlas.audit_log for each row"
# What a superuser may do to the guards, and what is found then.
OPENED = {
    # triggers
    "alter table atlas.audit_log disable trigger audit_log_append_only": "The trigger audit_log_append_only of audit_log is disabled",
    "alter table atlas.audit_seal enable trigger audit_seal_no_truncate": "audit_seal_no_truncate of audit_seal was changed: it is `enabled",
    "alter table atlas.audit_epoch enable replica trigger audit_epoch_append_only": "it is `in replicas only",
    "alter table atlas.jobs disable trigger all": "The trigger jobs_deleted of jobs is disabled",
    "drop trigger audit_checkpoint_append_only on atlas.audit_checkpoint": "audit_checkpoint_append_only of audit_checkpoint is missing",
    "drop trigger audit_private_no_update on atlas.audit_private": "audit_private_no_update of audit_private is missing",
    f"create or replace trigger audit_log_append_only {APPEND_ONLY} when (old.id < 0) execute function atlas.audit_is_append_only()": "audit_log_append_only of audit_log was changed",
    "create or replace trigger audit_log_append_only before update of id on atlas.audit_log for each row execute function"
    " atlas.audit_is_append_only(); alter table atlas.audit_log enable always trigger audit_log_append_only": "audit_log_append_only of audit_log was changed",
    "create trigger hidden before insert on atlas.audit_log for each row"
    " execute function suppress_redundant_updates_trigger()": "The trigger hidden of audit_log is not Atlas's",
    # rules, views, children
    "create rule nothing as on insert to atlas.audit_log do instead nothing": "The rule nothing of audit_log is not Atlas's",
    "create or replace view atlas.audit_entries with (security_invoker = true) as select id, epoch, xid::text as xid, created_at,"
    " tenant_id, actor_type, actor_id, level, action, entity_type, entity_id, message, meta::text as meta_text"
    " from atlas.audit_log where actor_id <> 'eve'": "The rule _RETURN of audit_entries was changed",
    "alter view atlas.audit_entries set (security_invoker = false)": "The options of audit_entries was changed",
    "create table atlas.audit_more () inherits (atlas.audit_log)": "The inheritance atlas.audit_more of audit_log is not Atlas's",
    "create table atlas.audit_log_history_30_20261118 () inherits (atlas.audit_log);"
    " alter table atlas.audit_log_history_30_20261118 owner to atlas_owner": "The inheritance atlas.audit_log_history_30_20261118",
    "create table atlas.jobs_history_30_20261118 () inherits (atlas.jobs)": "The inheritance atlas.jobs_history_30_20261118",
    "select atlas.add_history_part(30, '2026-11-18'); grant select on atlas.jobs_history_30_20261118 to atlas_tenant": "The role atlas_tenant has the right to select on jobs_history_30_20261118",
    # functions
    "drop function atlas.audit_is_append_only cascade": "The function audit_is_append_only is not as Atlas installs it",
    f"create or replace function atlas.audit_is_append_only() {EMPTY}": "The function audit_is_append_only is not",
    "alter function atlas.audit_is_append_only() set search_path = public": "The function audit_is_append_only is not",
    "create or replace function atlas.state_digest(p_row anyelement, p_changing text[]) returns text language sql stable as $$ select '' $$": "The function state_digest is not",
    "create or replace function atlas.content_digest(p_value jsonb) returns text language sql immutable return 'x'": "The function content_digest is not",
    "create function atlas.audit_forge() returns int language sql security definer as $$ select 1 $$": "The function audit_forge is not",
    "alter function atlas.state_kinds() security definer": "The definer state_kinds of functions is not Atlas's",
    "alter function atlas.audit_prune owner to current_user": "The definer audit_prune of functions was changed",
    "grant execute on function atlas.audit_prune to public": "The role public has the right to execute on the function audit_prune",
    "grant execute on function atlas.audit_new_epoch to atlas_engine": "The role atlas_engine has the right to execute on the function audit_new_epoch",
    # rights
    "grant update on atlas.audit_log to atlas_engine": "The role atlas_engine has the right to update on audit_log",
    "grant update (message) on atlas.audit_log to atlas_tenant": "The role atlas_tenant has the right to update (message) on audit_log",
    "grant delete on atlas.audit_private to public": "The role public has the right to delete on audit_private",
    "grant truncate on atlas.audit_seal to atlas_engine": "has the right to truncate on audit_seal",
    "grant insert on atlas.audit_log to atlas_engine": "The role atlas_engine has the right to insert on audit_log",
    "grant insert (created_at) on atlas.audit_log to atlas_engine": "has the right to insert (created_at) on audit_log",
    "grant insert on atlas.audit_pruned to atlas_engine": "has the right to insert on audit_pruned",
    "grant trigger, references on atlas.audit_seal to atlas_tenant": "has the right to trigger on audit_seal",
    "grant select on atlas.audit_private to atlas_tenant": "The role atlas_tenant has the right to select on audit_private",
    "grant select on atlas.audit_log to public": "The role public has the right to select on audit_log",
    "grant select on atlas.sessions to atlas_tenant": "The role atlas_tenant has the right to select on sessions",
    "grant insert on atlas.audit_log to pg_monitor": "The role pg_monitor has the right to insert on audit_log",
    "grant create on schema atlas to atlas_engine": "The role atlas_engine has the right to create on schema",
    "grant select on atlas.audit_log to atlas_engine with grant option": "has the right to select and grant it on audit_log",
    "grant update (effect) on atlas.policy_rules to atlas_tenant": "The role atlas_tenant has the right to update (effect) on policy_rules",
    "grant update (id) on atlas.hosts to atlas_tenant": "The role atlas_tenant has the right to update (all but tenant_id) on hosts",
    "grant select (hash) on atlas.sessions to public": "The role public has the right to select (hash) on sessions",
    "revoke update (name) on atlas.hosts from atlas_tenant": "The role atlas_tenant lacks the right to update (all but id, tenant_id) on hosts",
    "grant update on sequence atlas.audit_log_id_seq to atlas_engine": "has the right to update on the sequence audit_log_id_seq",
    "grant set on parameter session_replication_role to atlas_engine": "has the right to set on the setting session_replication_role",
    "revoke insert (body) on atlas.audit_log from atlas_engine": "The role atlas_engine lacks the right to insert (body) on audit_log",
    # roles and owners
    "grant atlas_owner to atlas_engine": "The role atlas_engine is a member of atlas_owner",
    "grant pg_write_all_data to atlas_tenant": "The role atlas_tenant is a member of pg_write_all_data",
    "alter role atlas_tenant bypassrls": "The role attributes of atlas_tenant was changed: it is `bypassrls`",
    "alter role atlas_engine superuser": "The role attributes of atlas_engine was changed: it is `superuser`",
    "alter table atlas.audit_log owner to atlas_engine": "The owner of audit_log was changed: it is `atlas_engine`",
    "alter table atlas.api_tokens owner to current_user": "The owner of api_tokens was changed",
    "alter schema atlas owner to atlas_tenant": "The owner of the schema is not Atlas's: `atlas_tenant`",
    "alter function atlas.audit_seal_is_checked() owner to atlas_engine": "The owner of the function audit_seal_is_checked is not Atlas's",
    "alter type atlas.job_status owner to atlas_engine": "The owner of the type job_status is not Atlas's",
    "alter view atlas.audit_entries owner to atlas_engine": "The owner of the view audit_entries is not Atlas's",
    "alter role atlas_tenant login": "The role attributes of atlas_tenant was changed: it is `login`",
    # settings that switch off triggers
    "alter role atlas_engine set session_replication_role = replica": "The setting session_replication_role of the login atlas_engine is `replica`",
    "do $$ begin execute format('alter database %I set session_replication_role = replica', current_database()); end $$": "The setting session_replication_role of every login is `replica`",
    # row-level security
    "alter table atlas.audit_log disable row level security": "The row-level security of audit_log was changed: it is `off`",
    "alter table atlas.audit_private no force row level security": "The row-level security of audit_private was changed: it is `on, but",
    "alter table atlas.jobs disable row level security": "The row-level security of jobs was changed",
    "drop policy own_rows on atlas.audit_log": "The policy own_rows of audit_log is missing",
    "alter policy own_rows on atlas.audit_log using (true)": "The policy own_rows of audit_log was changed",
    "alter policy own_rows on atlas.audit_private to public": "The policy own_rows of audit_private was changed",
    "create policy everyone on atlas.audit_log to atlas_tenant using (true)": "The policy everyone of audit_log is not Atlas's",
    "alter policy own_references on atlas.api_tokens with check (true)": "The policy own_references of api_tokens was changed",
    # tables, columns, constraints
    "alter table atlas.audit_log set unlogged": "The persistence of audit_log was changed: it is `unlogged`",
    "alter table atlas.audit_checkpoint set unlogged": "The persistence of audit_checkpoint was changed",
    "alter table atlas.audit_log alter created_at set default '2020-01-01'": "The column created_at of audit_log was changed",
    "alter table atlas.audit_log alter xid drop default": "The column xid of audit_log was changed",
    "alter table atlas.audit_log alter epoch set default 7": "The column epoch of audit_log was changed",
    "alter table atlas.audit_log alter id set generated by default": "The column id of audit_log was changed",
    "alter table atlas.audit_log alter body drop not null": "The column body of audit_log was changed",
    "alter table atlas.audit_pruned alter xid set default '3'": "The column xid of audit_pruned was changed",
    "alter table atlas.audit_log add hidden text": "The column hidden of audit_log is not Atlas's",
    "alter sequence atlas.audit_log_id_seq increment by 2": "The sequence atlas.audit_log_id_seq of audit_log was changed",
    "alter table atlas.audit_seal drop constraint audit_seal_leaves_are_counted": "The constraint audit_seal_leaves_are_counted of audit_seal is missing",
    "alter table atlas.audit_seal drop constraint audit_seal_first_index_key": "The constraint audit_seal_first_index_key of audit_seal is missing",
    "alter table atlas.audit_checkpoint drop constraint audit_checkpoint_pkey": "The constraint audit_checkpoint_pkey of audit_checkpoint is missing",
    "alter table atlas.audit_log add constraint no_events check (action <> 'TOKEN_ADDED') not valid": "The constraint no_events of audit_log is not Atlas's",
    "drop index atlas.audit_private_loose": "The index atlas.audit_private_loose of audit_private is missing",
}  # fmt: skip


async def test_a_new_database_is_guarded_as_the_file_says(owner, conn):
    assert written(await read_guards(owner)) == EXPECTED.read_text(), (
        "python -m tests.audit.write_guards writes it again"
    )
    assert await check_guards(conn) == []


async def test_every_guard_that_was_opened_is_found(owner):
    missed = {}
    for opened, found in some(list(OPENED.items()), every=9):
        transaction = owner.transaction()
        await transaction.start()
        await owner.execute(opened)
        messages = [finding.message for finding in await check_guards(owner)]
        await transaction.rollback()
        if not any(found in message for message in messages):
            missed[opened] = messages
    assert missed == {}


LOGIN = "create role shop login; grant atlas_engine, atlas_tenant to shop"


@pytest.mark.parametrize(
    ("opened", "power"),
    [
        ("alter role shop superuser", "superuser"),
        ("alter role shop createrole", "createrole"),
        ("alter role shop replication", "replication"),
        ("grant pg_write_all_data to shop", "a member of pg_write_all_data"),
        ("create role hidden; grant atlas_owner to hidden; grant hidden to shop", "a member of atlas_owner"),
    ],
)
async def test_a_login_of_programs_that_could_open_a_guard_is_found(owner, opened, power):
    transaction = owner.transaction()
    await transaction.start()
    await owner.execute(f"{LOGIN}; grant pg_monitor to shop")
    assert await check_guards(owner) == []
    await owner.execute(opened)
    messages = [finding.message for finding in await check_guards(owner)]
    await transaction.rollback()
    assert messages == [f"The login shop of the programs is {power}, and could open these guards."]


async def test_the_login_that_migrates_is_no_login_of_programs_and_that_of_an_embedded_server_is(owner):
    transaction = owner.transaction()
    await transaction.start()
    await owner.execute(f"{LOGIN}; grant atlas_owner to shop; alter role shop createrole")
    login = await make_login(owner)
    assert await check_guards(owner) == []
    await owner.execute(f"grant atlas_owner to {login}")
    messages = [finding.message for finding in await check_guards(owner)]
    await transaction.rollback()
    assert messages == [f"The login {login} of the programs is a member of atlas_owner, and could open these guards."]


async def test_a_function_that_was_replaced_is_found_whatever_the_database_recorded(owner):
    await owner.execute(f"create or replace function atlas.audit_is_append_only() {EMPTY}")
    assert await changed_functions(owner) == ["atlas.audit_is_append_only()"]
    await owner.execute(
        "update atlas.system_state set value = jsonb_set(value, '{installed,atlas.audit_is_append_only()}', to_jsonb(encode(sha256("
        "convert_to(pg_get_functiondef('atlas.audit_is_append_only'::regproc), 'UTF8')), 'hex'))) where key = 'functions'"
    )
    assert await changed_functions(owner) == []
    [finding] = await check_guards(owner)
    assert finding.message == "The function audit_is_append_only is not as Atlas installs it."


async def test_guards_of_another_version_are_not_called_whole(owner):
    await owner.execute("update atlas.system_state set value = value || '{\"sha256\": \"x\"}' where key = 'functions'")
    [finding] = await check_guards(owner)
    assert (finding.kind, "verify with the version that migrated" in finding.message) == ("guard", True)


async def test_rights_to_read_that_an_administrator_granted_are_none_of_its_concern(owner):
    transaction = owner.transaction()
    await transaction.start()
    await owner.execute("grant pg_read_all_stats to atlas_engine")
    assert await check_guards(owner) == []
    await transaction.rollback()
    await owner.execute("grant usage on schema atlas to pg_monitor; grant select on atlas.audit_log to pg_monitor")
    assert await check_guards(owner) == []
