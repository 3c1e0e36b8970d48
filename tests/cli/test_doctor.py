"""The doctor: every check has a verdict, and every verdict that is not well has a remedy."""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from atlas.audit.keys import checkpoint_folder, signing_key
from atlas.audit.sealing.sealer import seal_and_sign
from atlas.audit.verifier.signed_notes import Checkpoint
from atlas.cli.doctor.database import _promise
from atlas.db.login import make_login
from atlas.db.migrations import FUNCTIONS, load_migrations, migrate
from atlas.engine.jobs.lease import register_worker
from atlas.settings import load_settings
from atlas.test_databases import TestDatabases
from tests.cli.conftest import MAKE_GUEST, as_guest, environment, run
from tests.pgbouncer import direct_url

CHECKS = ["python", "prisma client", "home", "disk", "postgres", "fsync", "synchronous_commit", "max_connections"]
CHECKS += ["default_transaction_isolation", "max_wal_size", "migrations", "roles", "clock", "pool", "pooler", "replica"]
CHECKS += ["xmin horizon", "effects", "history"]


def by_name(document):
    return {check["check"]: check for check in document["checks"]}


async def execute(url: str, *statements: str) -> None:
    conn = await asyncpg.connect(direct_url(url))
    try:
        for statement in statements:
            await conn.execute(statement)
    finally:
        await conn.close()


def name_of(url: str) -> str:
    return url.split("/")[3].split("?")[0]


async def test_a_healthy_installation_passes_every_check_but_those_the_tests_switched_off(atlas):
    ran = await atlas("doctor", "--json")
    checks = by_name(ran.document)

    assert set(CHECKS) <= checks.keys()
    not_well = {name for name, check in checks.items() if check["verdict"] == "fail"}
    # A test server is allowed to forget, and the tests log in as its superuser.
    assert not_well <= {"fsync", "full_page_writes", "synchronous_commit", "login"}
    assert (ran.code, ran.document["ok"]) == ((1, False) if not_well else (0, True))
    assert all(check["remedy"] for check in checks.values() if check["verdict"] != "ok")


async def test_settings_that_break_a_promise_fail_with_what_would_be_lost(atlas, database_url):
    name = name_of(database_url)
    await execute(
        database_url,
        f'alter database "{name}" set synchronous_commit = off',
        f"alter database \"{name}\" set default_transaction_isolation = 'serializable'",
    )
    ran = await atlas("doctor", "--json")
    checks = by_name(ran.document)

    assert ran.code == 1
    assert checks["synchronous_commit"]["verdict"] == "fail"
    assert "can lose confirmed outcomes" in checks["synchronous_commit"]["remedy"]
    assert checks["default_transaction_isolation"]["verdict"] == "fail"


async def test_missing_and_changed_migrations_fail_and_nothing_is_changed(
    atlas, database_url, databases: TestDatabases
):
    async with databases.database(migrated=False) as url:
        missing = by_name((await atlas("doctor", "--json", DATABASE_URL=url)).document)["migrations"]
        again = by_name((await atlas("doctor", "--json", DATABASE_URL=url)).document)["migrations"]
    await execute(database_url, "update atlas._prisma_migrations set checksum = 'edited'")
    checks = by_name((await atlas("doctor", "--json")).document)
    changed = checks["migrations"]

    assert (missing["verdict"], missing["remedy"]) == ("fail", "Run `atlas migrate`.")
    assert again == missing
    assert changed["verdict"] == "fail"
    assert "is not the one that this version has" in changed["found"]
    assert "`atlas tenant export TENANT FILE`" in changed["remedy"]
    assert checks["audit guards"]["found"] == "not checked: the tables are those of another version"


async def test_no_migration_is_suggested_for_a_database_that_cannot_be_migrated(
    atlas, database_url, databases: TestDatabases
):
    async with databases.database(migrated=False) as url:
        await execute(url, "create schema atlas", "create table atlas.wp_posts (id int)")
        foreign = by_name((await atlas("doctor", "--json", DATABASE_URL=url)).document)["migrations"]
    await execute(database_url, "drop table atlas._prisma_migrations")
    unrecorded = by_name((await atlas("doctor", "--json")).document)["migrations"]

    for found in (foreign, unrecorded):
        assert found["verdict"] == "fail"
        assert found["remedy"].startswith("Name a schema of its own for Atlas")
    assert "(wp_posts)" in foreign["found"]


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit"])
def test_a_remedy_names_only_where_its_setting_can_be_set(setting):
    assert ("login" in _promise(setting, "off").remedy) is (setting == "synchronous_commit")


@pytest.mark.parametrize("applied", [1, 2, 4, 6])
async def test_a_migration_is_suggested_for_a_database_that_is_behind(atlas, databases: TestDatabases, applied):
    async with databases.database(migrated=False) as url:
        await migrate(url, load_migrations()[:applied])
        checks = by_name((await atlas("doctor", "--json", DATABASE_URL=url)).document)

    assert (checks["migrations"]["verdict"], checks["migrations"]["remedy"]) == ("fail", "Run `atlas migrate`.")
    assert "database" not in checks


async def test_for_a_login_without_the_roles_the_statements_to_run_are_shown(atlas, database_url):
    await execute(database_url, MAKE_GUEST)
    ran = await atlas("doctor", "--json", DATABASE_URL=as_guest(database_url))

    roles = by_name(ran.document)["roles"]
    assert roles["verdict"] == "warn"
    assert 'grant atlas_engine, atlas_tenant to "atlas_guest";' in roles["remedy"]


async def test_a_login_that_could_disable_the_triggers_fails_and_the_login_of_the_programs_does_not(
    atlas, database_url
):
    login = by_name((await atlas("doctor", "--json")).document)["login"]
    assert login["verdict"] == "fail"
    assert login["found"] == "postgres is a superuser, and could disable the triggers of the audit log"
    assert "grant atlas_engine, atlas_tenant to atlas_app;" in login["remedy"]

    conn = await asyncpg.connect(direct_url(database_url))
    await make_login(conn)
    await conn.close()
    checks = by_name((await atlas("doctor", "--json", DATABASE_URL=as_login(database_url, "atlas_app"))).document)
    assert (checks["login"]["verdict"], checks["login"]["found"]) == ("ok", "atlas_app owns nothing")
    assert [checks[name]["verdict"] for name in ("roles", "pool", "migrations", "audit log")] == ["ok"] * 4
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await execute(as_login(database_url, "atlas_app"), "alter table atlas.audit_log disable trigger all")


def as_login(url: str, login: str) -> str:
    return direct_url(url).replace("//postgres@", f"//{login}@")


async def test_no_remedy_gives_the_owners_role_to_the_login(atlas, database_url):
    await execute(database_url, MAKE_GUEST)
    checks = by_name((await atlas("doctor", "--json", DATABASE_URL=as_guest(database_url))).document)

    assert "atlas_owner to" not in " ".join(check["remedy"] for check in checks.values())


async def test_tables_that_are_closed_to_the_engine_are_named_with_the_grants_that_open_them(atlas, database_url):
    await execute(
        database_url,
        "revoke update on atlas.jobs from atlas_engine",
        "revoke select on atlas.job_runs, atlas.audit_log from atlas_engine",
        "revoke insert (body) on atlas.audit_log from atlas_engine",
        "alter table atlas.audit_log owner to current_user",
    )
    before = by_name((await atlas("doctor", "--json")).document)["roles"]
    await execute(database_url, before["remedy"].removeprefix("Have an administrator run: "))
    after = by_name((await atlas("doctor", "--json")).document)["roles"]

    assert (before["verdict"], before["found"]) == ("warn", "usable, 3 grants are missing")
    assert (after["verdict"], after["found"]) == ("ok", "usable")


async def test_tables_of_history_miss_no_grants(atlas, database_url):
    await execute(database_url, "select atlas.add_history_part(30, '2027-01-31')")
    assert by_name((await atlas("doctor", "--json")).document)["roles"]["found"] == "usable"


@pytest.mark.long
async def test_a_login_that_may_create_no_roles_migrates_after_an_administrator_ran_the_remedy(
    atlas, databases: TestDatabases
):
    async with databases.database(migrated=False) as url:
        login = f"{name_of(url)}_installs"
        await execute(
            url,
            f"create role {login} login",
            f"create schema atlas authorization {login}",
            f"create role {login}_programs login; grant atlas_engine, atlas_tenant to {login}_programs",
        )
        owner, programs = as_login(url, login), as_login(url, f"{login}_programs")
        try:
            await migrate(owner)
            before = by_name((await atlas("doctor", "--json", DATABASE_URL=programs)).document)["roles"]
            await execute(url, before["remedy"].removeprefix("Have an administrator run: "))
            after = by_name((await atlas("doctor", "--json", DATABASE_URL=programs)).document)["roles"]

            assert f"{login} cannot migrate without them" in before["found"]
            assert (after["verdict"], after["found"]) == ("ok", "usable")
            await execute(url, "delete from atlas.system_state where key = 'functions'")
            assert await migrate(owner) == [FUNCTIONS]
        finally:
            await execute(
                url, *(f"drop owned by {one} cascade; drop role {one}" for one in (f"{login}_programs", login))
            )


async def test_a_function_that_was_changed_in_the_database_is_named(atlas, owner):
    assert by_name((await atlas("doctor", "--json")).document)["functions"]["verdict"] == "ok"
    await owner.execute("alter function atlas.claim cost 7; alter function atlas.turn cost 7")
    functions = by_name((await atlas("doctor", "--json")).document)["functions"]

    assert functions["verdict"] == "fail"
    assert functions["found"].startswith("changed in the database: atlas.claim(")
    assert ", atlas.turn(" in functions["found"]
    assert "`atlas migrate`" in functions["remedy"]


@pytest.mark.long
async def test_programs_of_two_versions_are_shown_and_a_warning_after_a_day(atlas, owner):
    for number, version in enumerate(("0.9.0", "0.10.0", "0.10.0")):
        await register_worker(owner, f"vm:{number}:x", lease=60, job_types=["a.work"])
        await owner.execute("update atlas.job_workers set version = $1 where worker_id = $2", version, f"vm:{number}:x")
    await owner.execute(
        """insert into atlas.running_programs (id, kind, version, hostname, seen_at) values
        (gen_random_uuid(), 'scheduler', '0.9.0', 'vm', clock_timestamp()),
        (gen_random_uuid(), 'api', '0.10.0', 'vm', clock_timestamp() - interval '10 seconds'),
        (gen_random_uuid(), 'api', '0.8.0', 'vm', clock_timestamp() - interval '2 minutes')"""
    )
    versions = by_name((await atlas("doctor", "--json")).document)["versions"]
    both = "0.10.0 (2 workers, 1 API), 0.9.0 (1 worker, 1 scheduler)"
    assert (versions["verdict"], versions["found"]) == ("ok", both)
    assert (await atlas("status")).stdout.endswith(f"\nVersions: {both}.\n")

    await owner.execute("update atlas.job_workers set started_at = started_at - interval '2 days'")
    assert by_name((await atlas("doctor", "--json")).document)["versions"]["verdict"] == "warn"
    await owner.execute(
        """update atlas.system_state set value = value || '{"oldest": "0.10.0"}' where key = 'schema'"""
    )
    assert by_name((await atlas("doctor", "--json")).document)["versions"]["verdict"] == "fail"


async def test_an_outcome_without_an_event_is_reported(atlas, database_url):
    await execute(
        database_url,
        "insert into atlas.system_state (key, value, updated_by) values ('atlas_online', '{\"online\": true}', 'eve')"
        " on conflict (key) do update set value = excluded.value",
    )
    audit_log = by_name((await atlas("doctor", "--json")).document)["audit log"]
    assert (audit_log["verdict"], audit_log["found"]) == (
        "fail",
        "Atlas is online, but the last event of the gate is missing.",
    )


async def test_an_audit_log_that_is_not_guarded_is_a_failure(atlas, database_url):
    assert by_name((await atlas("doctor", "--json")).document)["audit guards"]["verdict"] == "ok"
    await execute(database_url, "grant update on atlas.audit_log to atlas_engine")
    guards = by_name((await atlas("doctor", "--json")).document)["audit guards"]
    assert guards["verdict"] == "fail"
    assert "The role atlas_engine has the right to update on audit_log" in guards["found"]

    await execute(
        database_url,
        "revoke update on atlas.audit_log from atlas_engine",
        "drop trigger audit_log_append_only on atlas.audit_log",
        "alter table atlas.audit_seal disable trigger all",
    )
    guards = by_name((await atlas("doctor", "--json")).document)["audit guards"]
    assert guards["verdict"] == "fail"
    assert re.search(r"And \d+ more\.", guards["found"])
    await execute(database_url, *re.findall("`(delete .*?)`", guards["remedy"]))
    await migrate(database_url)
    assert by_name((await atlas("doctor", "--json")).document)["audit guards"]["verdict"] == "ok"


async def test_a_key_that_others_can_read_is_a_warning(atlas, tmp_path: Path):
    assert "audit key" not in by_name((await atlas("doctor", "--json")).document)
    key = tmp_path / "audit.key"
    key.write_text("a key")
    for mode, verdict in ((0o600, "ok"), (0o640, "ok"), (0o644, "warn")):
        key.chmod(mode)
        ran = await atlas("doctor", "--json", ATLAS_AUDIT_KEY_FILE=str(key))
        assert by_name(ran.document)["audit key"]["verdict"] == verdict


async def test_an_audit_log_that_lacks_what_was_signed_is_a_failure(atlas, pool, database_url, tmp_path: Path):
    settings = load_settings(atlas_home=tmp_path / "home", database_url=database_url)
    assert (await atlas("tenant", "add", "acme")).code == 0
    await seal_and_sign(pool, settings)
    assert by_name((await atlas("doctor", "--json")).document)["checkpoints"]["verdict"] == "ok"
    # A copy of a later checkpoint, as a database leaves it that was restored to an earlier time.
    key, now = signing_key(settings), datetime.now(UTC)
    [copies] = checkpoint_folder(settings).iterdir()
    with copies.open("a") as file:
        file.write("\n" + key.sign(Checkpoint(key.name, 99, bytes(32), now)))

    found = by_name((await atlas("doctor", "--json")).document)["checkpoints"]

    assert found["verdict"] == "fail"
    assert "do not continue the 99 signed before" in found["found"]
    assert "atlas audit new-epoch" in found["remedy"]


async def test_a_server_that_cannot_be_reached_is_a_finding_among_the_others(atlas):
    ran = await atlas("doctor", DATABASE_URL="postgresql://localhost:1/atlas")

    assert ran.code == 1
    assert "ok   python" in ran.stdout
    assert "fail database" in ran.stdout
    assert "Traceback" not in ran.stderr


async def test_a_home_that_is_not_made_yet_is_left_that_way(atlas, tmp_path: Path):
    ran = await atlas("doctor", DATABASE_URL=None)

    assert ran.code == 0
    assert "the first start creates it" in ran.stdout
    assert not (tmp_path / "home").exists()


async def test_a_postgres_that_is_too_old_fails(database_url, tmp_path: Path):
    code = "import atlas.db.pool, sys; atlas.db.pool.OLDEST_POSTGRES = 99; sys.argv = ['atlas', 'doctor']"
    argv = [sys.executable, "-c", f"{code}; from atlas.cli.main import main; main()"]
    ran = await run(argv, cwd=tmp_path, env=environment(tmp_path, DATABASE_URL=database_url))

    assert ran.code == 1
    assert "fail postgres" in ran.stdout
