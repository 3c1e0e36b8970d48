"""`atlas backup` and `atlas restore`, as their users run them; and homes that are used with two databases."""

import shutil
import stat
from datetime import UTC, datetime
from uuid import uuid4

import orjson
import pytest

from atlas.audit.sealing.sealer import seal_and_sign
from atlas.cli.backup.manifest import Manifest, sha256_of
from atlas.cli.backup.restored import note_restore
from atlas.db.pool import connect, open_pool
from atlas.engine.jobs.switches.gate import switch
from atlas.home.database_home import database_home
from atlas.postgres.cluster import start_embedded
from atlas.postgres.dump import RESTORE_SESSIONS
from atlas.settings import load_settings
from tests.cli.conftest import MAKE_GUEST, as_guest
from tests.engine.retention.test_history import file_all, given_failure
from tests.engine.retention.test_retention import age
from tests.support import DANA

LATER = '{"to": ["a@example.org"], "subject": "Hello", "text": "Hi"}'


@pytest.fixture
async def backup(atlas, tmp_path, pool, database_url):
    """A backup of an installation with a tenant, a job and a signed audit log."""
    assert (await atlas("tenant", "add", "acme")).code == 0
    queued = await atlas("enqueue", "EMAIL_SEND", "--tenant", "acme", "--input", LATER, "--delay", "1h", "--json")
    assert queued.code == 0, queued
    await seal_and_sign(pool, load_settings(atlas_home=tmp_path / "home", database_url=database_url))
    made = await atlas("backup", str(tmp_path / "backup"), "--json")
    assert made.code == 0, made
    return tmp_path / "backup"


@pytest.mark.long
async def test_a_backup_is_restored_into_a_new_home_offline_and_verifies(atlas, backup, conn, pool, tmp_path):
    await switch(conn, online=True, actor=DANA)
    failed = await given_failure(conn)
    await age(conn, days=0)
    assert await file_all(pool) == 1
    backup = tmp_path / "with history"
    assert (await atlas("backup", str(backup))).code == 0
    signed = (tmp_path / "home" / "keys" / "audit.pub").read_text()
    elsewhere = {"DATABASE_URL": None, "ATLAS_HOME": str(tmp_path / "new")}
    restored = await atlas("restore", str(backup), **elsewhere)
    assert restored.code == 0, restored
    assert restored.stderr == ""
    assert [stat.S_IMODE((tmp_path / "new" / name).stat().st_mode) & 0o076 for name in ("", "keys")] == [0, 0]
    assert "Atlas is offline" in restored.stdout
    status = await atlas("status", **elsewhere)
    assert "restored from the backup of" in status.stdout
    listed = (await atlas("jobs", "list", "--tenant", "acme", "--json", **elsewhere)).document
    assert [job["job_type"] for job in listed["jobs"]] == ["EMAIL_SEND"]
    verified = await atlas("audit", "verify", "--state", **elsewhere)
    assert verified.code == 0, verified
    # It comes back from history.
    assert (await atlas("jobs", "retry", str(failed), **elsewhere)).code == 0
    found = await atlas("audit", "tail", "--json", **elsewhere)
    assert "DATABASE_RESTORED" in found.stdout
    assert (tmp_path / "new" / "keys" / "audit.pub").read_text() == signed
    assert "restored" in (await atlas("doctor", **elsewhere)).stdout
    assert (await atlas("online", **elsewhere)).code == 0
    again = await atlas("restore", str(backup), **elsewhere)
    assert "already holds a database" in again.refusal


@pytest.mark.long
async def test_a_restore_makes_the_roles_that_the_backup_grants_rights_to(atlas, owner, tmp_path):
    login, reader = f"shop_{uuid4().hex[:8]}", f"Reader {uuid4().hex[:8]}"
    await owner.execute(f'create role {login} login; create role "{reader}"; grant select on atlas.jobs to "{reader}"')
    assert (await atlas("tenant", "add", "acme")).code == 0
    assert (await atlas("grant", "enqueue", login, "--tenant", "acme", "--type", "report.*")).code == 0
    assert (await atlas("backup", str(tmp_path / "backup"))).code == 0
    await owner.execute(f'drop owned by {login}, "{reader}"; drop role {login}; drop role "{reader}"')

    # A server of its own, which has neither these roles nor the one of `atlas grant enqueue`.
    elsewhere = {"DATABASE_URL": None, "ATLAS_HOME": str(tmp_path / "new")}
    restored = await atlas("restore", str(tmp_path / "backup"), **elsewhere)

    assert restored.code == 0, restored
    assert f"roles that this server did not have: {reader}. They were created without a login" in restored.stderr
    assert f"no longer can: {login}. Repeat `atlas grant enqueue`" in restored.stderr
    server = await start_embedded(tmp_path / "new")
    conn = await connect(server.url())
    assert await conn.fetchval("select has_table_privilege($1, 'atlas.jobs', 'select')", reader)
    assert await conn.fetchval("select has_schema_privilege('atlas_enqueuer', 'atlas', 'usage')")
    await conn.close()
    server.release()


@pytest.mark.long
async def test_a_backup_holds_the_keys_for_their_owner_alone_unless_they_are_left_out(atlas, backup, conn, tmp_path):
    manifest = orjson.loads((backup / "backup.json").read_bytes())
    assert {"database.dump", "keys/audit.key", "keys/audit.pub", "keys/audit.state"} <= manifest["files"].keys()
    assert any(name.startswith("checkpoints/") for name in manifest["files"])
    assert (backup / "keys" / "audit.key").stat().st_mode & 0o077 == 0
    assert backup.stat().st_mode & 0o077 == 0
    assert (await atlas("backup", str(tmp_path / "second"), "--without-keys")).code == 0
    assert not list((tmp_path / "second").rglob("*.key"))
    taken = await atlas("backup", str(backup))
    assert "already exists" in taken.refusal
    assert not list(tmp_path.glob("*.incomplete"))
    rows = await conn.fetch(
        "select action, meta->>'folder' as folder, meta->'with_keys' = 'true' as with_keys, meta->>'dump_sha256' as dump"
        " from atlas.audit_log where action like 'DATABASE_BACK%' order by id"
    )
    second = orjson.loads((tmp_path / "second" / "backup.json").read_bytes())["files"]["database.dump"]
    assert [tuple(row) for row in rows] == [
        ("DATABASE_BACKUP_BEGAN", str(backup), True, None),
        ("DATABASE_BACKED_UP", str(backup), True, manifest["files"]["database.dump"]),
        ("DATABASE_BACKUP_BEGAN", str(tmp_path / "second"), False, None),
        ("DATABASE_BACKED_UP", str(tmp_path / "second"), False, second),
    ]


@pytest.mark.long
async def test_a_restore_refuses_what_is_not_a_backup_was_changed_or_would_replace_something(atlas, backup, tmp_path):
    nothing = await atlas("restore", str(tmp_path / "nothing"))
    assert "is not a backup" in nothing.refusal
    checked = await atlas("restore", str(backup), "--check")
    assert "is whole" in checked.stdout
    taken = await atlas("restore", str(backup), ATLAS_HOME=str(tmp_path / "fresh"))
    assert "already has a schema atlas" in taken.refusal
    shutil.copytree(backup, tmp_path / "changed")
    with (tmp_path / "changed" / "database.dump").open("ab") as file:
        file.write(b"x")
    assert "was changed" in (await atlas("restore", str(tmp_path / "changed"), "--check")).refusal
    changed = await atlas("restore", str(tmp_path / "changed"), ATLAS_HOME=str(tmp_path / "fresh"))
    assert "was changed" in changed.refusal
    (tmp_path / "used" / "keys").mkdir(parents=True)
    (tmp_path / "used" / "keys" / "audit.key").write_text("another")
    used = await atlas("restore", str(backup), ATLAS_HOME=str(tmp_path / "used"), DATABASE_URL=None)
    assert "is not the one of the backup" in used.refusal
    other = await atlas("restore", str(backup), ATLAS_HOME=str(tmp_path / "fresh"), ATLAS_SCHEMA="other")
    assert "Set ATLAS_SCHEMA=atlas" in other.refusal


@pytest.mark.long
async def test_a_restore_into_a_database_with_other_tables_leaves_them_alone_and_goes_on_after_a_crash(
    atlas, backup, databases, tmp_path, monkeypatch
):
    async with databases.database(migrated=False) as url:
        conn = await connect(url)
        await conn.execute("create table public.orders as select 1 as id")
        # What a restore leaves that was killed on its way: a part of the schema, and its note.
        await conn.execute("create schema atlas; create table atlas.half ()")
        monkeypatch.setenv("DATABASE_URL", url)
        monkeypatch.setenv("ATLAS_HOME", str(tmp_path / "fresh"))
        (tmp_path / "fresh").mkdir()
        note_restore(load_settings(), datetime.now(UTC), complete=False)
        target = {"DATABASE_URL": url, "ATLAS_HOME": str(tmp_path / "fresh")}
        unfinished = await atlas("doctor", **target)
        assert "not completed" in unfinished.stdout
        # And its session, where the network did not tell the server of its end.
        left = await connect(url, application=f"{RESTORE_SESSIONS}of before")
        await left.execute("begin; lock table atlas.half")
        restored = await atlas("restore", str(backup), **target)
        assert restored.code == 0, restored
        assert await conn.fetchval("select count(*) from public.orders") == 1
        assert await conn.fetchval("select to_regclass('atlas.half')") is None
        await left.close()
        assert await conn.fetchval("select count(*) from atlas.jobs") == 1
        assert (await atlas("audit", "verify", **target)).code == 0
        await conn.close()


REFUSES_POLICIES = """
create function no_policies() returns event_trigger language plpgsql as $$ begin raise 'no policies here'; end $$;
create event trigger no_policies on ddl_command_start when tag in ('CREATE POLICY') execute function no_policies()"""
HOLDS_SCHEMA = "select exists (select from pg_namespace where nspname = 'atlas')"


@pytest.mark.long
async def test_a_restore_that_fails_leaves_neither_files_nor_tables(atlas, backup, databases, tmp_path):
    async with databases.database(migrated=False) as url:
        target = {"DATABASE_URL": url, "ATLAS_HOME": str(tmp_path / "fresh")}
        cut = tmp_path / "cut"
        shutil.copytree(backup, cut)
        dump = (cut / "database.dump").read_bytes()
        (cut / "database.dump").write_bytes(dump[: len(dump) // 2])
        manifest = Manifest.model_validate_json((cut / "backup.json").read_bytes())
        manifest.files["database.dump"] = sha256_of(cut / "database.dump")
        manifest.write(cut)
        failed = await atlas("restore", str(cut), **target)
        assert "pg_restore failed" in failed.refusal
        conn = await connect(url)
        assert not await conn.fetchval(HOLDS_SCHEMA)
        assert not (tmp_path / "fresh").exists()
        await conn.execute(REFUSES_POLICIES)
        failed = await atlas("restore", str(backup), **target)
        assert "no policies here" in failed.refusal
        assert not await conn.fetchval(HOLDS_SCHEMA)
        assert not (tmp_path / "fresh").exists()
        await conn.execute("drop event trigger no_policies")
        assert (await atlas("restore", str(backup), **target)).code == 0
        await conn.close()


@pytest.mark.long
async def test_a_restore_that_fails_leaves_no_embedded_database(atlas, backup, tmp_path):
    (tmp_path / "fresh").mkdir()
    (tmp_path / "fresh" / "notes.txt").write_text("mine")
    manifest = Manifest.read(backup)
    (backup / "database.dump").write_bytes(b"no dump")
    manifest.files["database.dump"] = sha256_of(backup / "database.dump")
    manifest.write(backup)
    failed = await atlas("restore", str(backup), DATABASE_URL=None, ATLAS_HOME=str(tmp_path / "fresh"))
    assert "pg_restore failed" in failed.refusal
    assert [path.name for path in (tmp_path / "fresh").rglob("*")] == ["notes.txt"]


async def test_a_login_that_does_not_see_every_row_makes_no_backup(atlas, owner, database_url, tmp_path):
    await owner.execute(MAKE_GUEST)
    refused = await atlas("backup", str(tmp_path / "backup"), ATLAS_OWNER_URL=as_guest(database_url))
    assert "login atlas_guest does not see all rows of api_tokens" in refused.refusal
    assert "Let ATLAS_OWNER_URL name the login that ran `atlas migrate`" in refused.refusal
    assert list(tmp_path.glob("backup*")) == []


@pytest.mark.long
async def test_a_home_that_is_used_with_another_database_keeps_its_keys_apart_and_raises_no_alarm(
    atlas, backup, databases, tmp_path
):
    first = (tmp_path / "home" / "keys" / "audit.pub").read_text()
    async with databases.database() as other:
        assert (await atlas("tenant", "add", "globex", DATABASE_URL=other)).code == 0
        pool = await open_pool(other, size=1)
        await seal_and_sign(pool, load_settings(atlas_home=tmp_path / "home", database_url=other))
        await pool.close()
        verified = await atlas("audit", "verify", DATABASE_URL=other)
        assert verified.code == 0, verified
        again = await atlas("audit", "verify", "--incremental", DATABASE_URL=other)
        assert again.code == 0, again
    assert (tmp_path / "home" / "keys" / "audit.pub").read_text() == first
    [own] = (tmp_path / "home" / "databases").iterdir()
    assert (own / "keys" / "audit.pub").read_text() != first
    assert (await atlas("audit", "verify")).code == 0


def test_the_folder_of_a_database_does_not_depend_on_its_login(tmp_path):
    (tmp_path / "home").mkdir()

    def home(url):
        return database_home(load_settings(atlas_home=tmp_path / "home", database_url=url))

    assert home("postgresql://a:one@db:5432/shop") == tmp_path / "home"
    assert home("postgresql://b:two@db:5432/shop") == tmp_path / "home"
    assert home("postgresql://a@db:5432/other") != tmp_path / "home"
    assert home(None).parent == tmp_path / "home" / "databases"
