"""SQL functions: what is installed is what the files say, and is installed again when a file changes."""

import re

import asyncpg
import pytest

from atlas.db import sql_functions
from atlas.db.migrations import FUNCTIONS, migrate, pending
from atlas.db.sql_functions import changed_functions, function_files, functions_hash, install_functions
from tests.support import some

INSTALLED = """
select p.proname, p.prosrc, p.proconfig, p.prosqlbody is not null as is_parsed, p.prolang = 12 or l.lanname = 'internal' as is_c
from pg_proc p join pg_language l on l.oid = p.prolang where p.pronamespace = 'atlas'::regnamespace"""
BODY = re.compile(r"create or replace function (\w+).*? as \$\$(.*?)\$\$;", re.S)


@pytest.fixture
def changed_file(tmp_path, monkeypatch):
    """A function more than the files define, as after a change of the code."""
    extra = tmp_path / "greet.sql"
    extra.write_text("create or replace function greet() returns text language sql return 'hello';")
    monkeypatch.setattr(sql_functions, "function_files", lambda: [*function_files(), extra])
    functions_hash.cache_clear()
    yield
    functions_hash.cache_clear()


def test_each_file_defines_the_one_function_it_is_named_after():
    for path in function_files():
        assert set(re.findall(r"^create or replace function (\w+)", path.read_text(), re.M)) == {path.stem}, path
        assert path.read_text().startswith("-- "), f"{path} does not say what it does"


def test_the_callers_that_a_header_names_call_the_function():
    for path in function_files():
        header = path.read_text().split("create or replace function")[0]
        for caller in re.findall(r"[a-z]+/[a-z_/]+\.py", header.partition("Called by")[2]):
            module = (sql_functions.SOURCE / caller).read_text()
            statements = [sql_functions.SOURCE / name for name in re.findall(r'statement\("([^"]+)"\)', module)]
            texts = [module, *(statement.read_text() for statement in statements)]
            assert any(re.search(rf"atlas\.{path.stem}\b", text) for text in texts), (
                f"{path}: {caller} does not call it"
            )


def test_the_functions_and_statements_that_a_header_names_as_callers_call_the_function():
    functions = {path.stem: path for path in function_files()}
    strangers = []
    for path in function_files():
        header = " ".join(re.findall(r"^-- (.*)$", path.read_text(), re.M))
        callers = re.split(r"\.(?: |$)| under | which ", header.partition("Called by ")[2])[0]
        for caller in re.findall(r"[a-z_/]+\.sql|[a-z_]+(?![a-z_/]*[./])", callers):
            if found := functions.get(caller) or ("/" in caller and sql_functions.SOURCE / caller):
                body = re.sub(r"^--.*$", "", found.read_text(), flags=re.M)
                if not re.search(rf"\b{path.stem}\b", body):
                    strangers.append(f"{path}: {caller}")
    assert strangers == []


def test_migrations_define_no_function():
    for path in sorted((sql_functions.SOURCE / "migrations").glob("*/migration.sql")):
        assert "create function" not in path.read_text(), path


async def test_what_is_installed_is_what_the_files_say(owner):
    installed = await owner.fetch(INSTALLED)
    written = {(match[1], match[2]) for path in function_files() for match in BODY.finditer(path.read_text())}

    assert {row["proname"] for row in installed} == {path.stem for path in function_files()}
    assert {(row["proname"], row["prosrc"]) for row in installed if not row["is_parsed"]} == written


async def test_no_function_depends_on_the_search_path_of_its_caller(owner):
    """Each has its own search path, or a body whose names were resolved when it was created."""
    loose = [
        row["proname"]
        for row in await owner.fetch(INSTALLED)
        if not row["is_parsed"] and not any(one.startswith("search_path=") for one in row["proconfig"] or ())
    ]
    assert loose == []


async def test_functions_are_installed_again_when_a_file_changes(database_url, owner, changed_file):
    assert await pending(owner) == [FUNCTIONS]

    assert await migrate(database_url) == [FUNCTIONS]

    assert await owner.fetchval("select atlas.greet()") == "hello"
    assert await pending(owner) == []


async def test_a_function_that_has_no_file_any_more_is_dropped(database_url, owner):
    await owner.execute("create function atlas.left_over(int) returns int language sql return 1")
    await owner.execute("update atlas.system_state set value = '{}' where key = 'functions'")

    await migrate(database_url)

    with pytest.raises(asyncpg.UndefinedFunctionError):
        await owner.fetchval("select atlas.left_over(1)")


CHANGES = [
    (
        "create or replace function atlas.content_digest(p_value jsonb) returns text language sql return 'x'",
        "content_digest",
    ),
    ("alter function atlas.lock_class(atlas.lock_name) cost 7", "lock_class"),
    ("alter function atlas.may_claim reset all", "may_claim"),
    ("create function atlas.left_over(int) returns int language sql return 1", "left_over"),
    ("drop function atlas.job_minutes", "job_minutes"),
    (
        "drop function atlas.content_digest; create function atlas.content_digest(value jsonb) returns int language sql return 1",
        "content_digest",
    ),
]


@pytest.mark.parametrize(("change", "name"), some(CHANGES, every=3))
async def test_a_function_that_was_changed_in_the_database_is_installed_again(database_url, owner, change, name):
    before = await owner.fetch(INSTALLED)
    await owner.execute("set search_path = atlas")
    assert await changed_functions(owner) == []
    await owner.execute(change)

    [changed] = await changed_functions(owner)
    assert changed.startswith(f"atlas.{name}(")
    assert await pending(owner) == []  # no program stops for it: `atlas audit verify` must be able to report it
    assert await migrate(database_url) == [FUNCTIONS]
    assert await changed_functions(owner) == []
    assert sorted(map(str, await owner.fetch(INSTALLED))) == sorted(map(str, before))
    assert await migrate(database_url) == []


async def test_functions_are_installed_without_a_lock_on_any_table(owner):
    async with owner.transaction():
        await owner.execute("set local search_path = atlas, pg_temp")
        await install_functions(owner)
        locks = await owner.fetch(
            """select c.relname, l.mode from pg_locks l join pg_class c on c.oid = l.relation
            where l.pid = pg_backend_pid() and c.relnamespace = 'atlas'::regnamespace and c.relkind in ('r', 'p')"""
        )
    assert {row["mode"] for row in locks} <= {"AccessShareLock", "RowShareLock", "RowExclusiveLock"}


POLICIES = """
select p.*, c.relforcerowsecurity
from pg_policies p join pg_class c on c.relname = p.tablename and c.relnamespace = p.schemaname::regnamespace
where p.schemaname = 'atlas' order by p.tablename, p.policyname"""
TRIGGERS = """
select pg_get_triggerdef(t.oid), t.tgenabled
from pg_trigger t join pg_class c on c.oid = t.tgrelid
where c.relnamespace = 'atlas'::regnamespace order by c.relname, t.tgname"""


@pytest.mark.parametrize(
    "change",
    some(
        [
            "alter policy own_rows on atlas.jobs using (true)",
            "alter policy own_rows on atlas.jobs to public",
            "drop policy programs on atlas.jobs",
            "drop policy own_event on atlas.workflow_steps",
            "create policy shared_rows on atlas.jobs using (true)",
            "alter table atlas.jobs no force row level security",
            "alter table atlas.audit_log disable trigger audit_log_append_only",
            "alter table atlas.jobs disable trigger jobs_deleted",
            "create or replace trigger audit_log_append_only before update on atlas.audit_log for each row"
            " execute function atlas.audit_is_append_only()",
        ],
        every=3,
    ),
)
async def test_a_policy_or_a_trigger_that_was_changed_is_made_again(database_url, owner, change):
    async def protection():
        return [*map(tuple, await owner.fetch(POLICIES)), *map(tuple, await owner.fetch(TRIGGERS))]

    before = await protection()
    await owner.execute(change)
    assert await protection() != before

    await owner.execute("delete from atlas.system_state where key = 'functions'")
    await migrate(database_url)

    assert await protection() == before


async def test_every_class_of_advisory_locks_has_its_own_number(owner):
    numbers = await owner.fetch("select atlas.lock_class(n) from unnest(enum_range(null::atlas.lock_name)) n")

    assert len({row["lock_class"] for row in numbers}) == len(numbers)
    assert None not in {row["lock_class"] for row in numbers}
