"""Compares what guards the audit log with what `atlas migrate` installs: tables, rights, triggers, policies, functions.

A superuser can remove all of it, change the audit log, and put it back; that is found by verification. Guards that were
left open are found here: they let others do so.

`audit/guards.json` is what the catalogs hold after `atlas migrate`, a line for each fact; `python -m
tests.audit.write_guards` writes it, and a test compares it with a new database. It is a file and not a table, so that
whoever opens a guard cannot change what is expected. What the functions do is in their own files.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import orjson

from atlas.audit.verifier.format import Finding
from atlas.db.pool import Connection
from atlas.db.schema import in_schema, role, schema_name
from atlas.db.sql_functions import changed_functions, function_files, functions_are_current
from atlas.db.statements import fetch, statement
from atlas.source import SOURCE

GUARDS = statement("audit/sql/guards.sql")
FUNCTIONS = statement("audit/sql/guard_functions.sql")
EXPECTED = SOURCE / "audit/guards.json"

# On a server where no one may create Atlas's roles, it has none of these; `atlas doctor` says so.
OF_ROLES = ("owner", "security", "policy", "right", "role", "member", "login", "definer", "setting")
OTHER_VERSION = (
    "The SQL functions in the database are not those of this version of Atlas, so its guards were not compared. Run"
    " `atlas migrate`, or verify with the version that migrated the database last."
)
NOT_SECURED = (
    "No table has row-level security, or its owner and rights as Atlas installs them: see the check of the roles in"
    " `atlas doctor`."
)
_FUNCTION = re.compile(r"create or replace function (\w+)\(.*?language (\w+)(.*?)(?:as \$\$(.*?)\$\$;|;\n)", re.DOTALL)

# Kind and subject of a fact, its name, and all values that it has.
Facts = Mapping[tuple[str, str, str], set[str]]


@dataclass(frozen=True, slots=True)
class FunctionFile:
    """What a file says of its function. The body is None where Postgres keeps it parsed, without its text."""

    language: str
    has_path: bool
    body: str | None


async def check_guards(conn: Connection) -> list[Finding]:
    """What is not as Atlas installs it."""
    if not await functions_are_current(conn):
        return [Finding("guard", OTHER_VERSION)]
    facts, expected, differences = await read_guards(conn), expected_guards(), []
    if not any(kind == "policy" for kind, _, _ in facts):
        differences += [NOT_SECURED] if any(kind == "role" for kind, _, _ in facts) else []
        facts, expected = _without_roles(facts), _without_roles(expected)
    for key in sorted(expected.keys() | facts.keys()):
        differences += _differences(key, expected, facts)
    return [Finding("guard", message) for message in (*differences, *await _changed_functions(conn))]


async def read_guards(conn: Connection) -> Facts:
    """The guards as the catalogs have them now."""
    names = {f"{name}_role": role(name) for name in ("owner", "engine", "tenant", "enqueuer")}
    async with conn.transaction():
        # Otherwise names are written without their schema, or with another one's.
        await conn.execute("set local search_path = pg_catalog")
        return _by_key(await fetch(conn, GUARDS, schema=schema_name(), app_login=role("app"), **names))


@cache
def expected_guards() -> Facts:
    """The guards as `atlas migrate` installs them, in the schema of this installation."""
    return _by_key([in_schema(part) for part in line] for line in orjson.loads(EXPECTED.read_bytes()))


@cache
def files_of_functions() -> dict[str, list[FunctionFile]]:
    """What the files say of the functions of each name."""
    files = defaultdict(list)
    for path in function_files():
        for name, language, options, body in _FUNCTION.findall(path.read_text(encoding="utf-8")):
            files[name].append(FunctionFile(language, "set search_path from current" in options, body or None))
    return dict(files)


def _without_roles(facts: Facts) -> Facts:
    return {key: values for key, values in facts.items() if key[0] not in OF_ROLES}


def _by_key(lines: Iterable[Iterable[str]]) -> Facts:
    facts: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for kind, of, name, value in lines:
        facts[kind, of, name].add(value)
    return dict(facts)


def _differences(key: tuple[str, str, str], expected: Facts, facts: Facts) -> list[str]:
    kind, of, name = key
    then, now = expected.get(key, set()), facts.get(key, set())
    if then == now:
        return []
    if kind == "right":
        more = [f"The role {name} has the right to {verb} on {of}, which Atlas does not grant." for verb in now - then]
        less = [f"The role {name} lacks the right to {verb} on {of}." for verb in then - now]
        return sorted(more) + sorted(less)
    if kind == "member":
        return [f"The role {of} is a member of {name}, and can do what that role may."]
    if kind == "setting":
        return [f"The setting {name} of {of} is {_listed(now)}: triggers would not run."]
    if kind == "login":
        return [f"The login {of} of the programs is {name}, and could open these guards."]
    what = (
        f"The {name} of {of}"
        if name in (kind, "row-level security", "persistence", "kind", "options")
        else f"The {kind} {name} of {of}"
    )
    if not now:
        return [f"{what} is missing."]
    if not then:
        return [f"{what} is not Atlas's: {_listed(now)}."]
    if kind == "trigger" and any(value.startswith("disabled") for value in now):
        return [f"{what} is disabled."]
    return [f"{what} was changed: it is {_listed(now)}, and Atlas installs {_listed(then)}."]


def _listed(values: Iterable[str]) -> str:
    return "; ".join(f"`{value}`" for value in sorted(values))


async def _changed_functions(conn: Connection) -> list[str]:
    """Functions with another text than in their files; those that Postgres keeps parsed, by what was recorded."""
    files = files_of_functions()
    rows = await fetch(conn, FUNCTIONS, schema=schema_name())
    names = {row["name"] for row in rows if not _is_installed(row, files.get(row["name"], ()))}
    names |= files.keys() - {row["name"] for row in rows}
    names |= {
        signature.removeprefix(f"{schema_name()}.").partition("(")[0] for signature in await changed_functions(conn)
    }
    return [f"The function {name} is not as Atlas installs it." for name in sorted(names)]


def _is_installed(row: Mapping[str, object], files: Iterable[FunctionFile]) -> bool:
    path = f"search_path={schema_name()}, pg_temp"
    return any(
        row["language"] == file.language
        and row["body"] == (file.body or "")
        and row["path"] == (path if file.has_path else None)
        for file in files
    )
