"""Checks of the database: whether Atlas can keep its promises on it."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from atlas.audit.guards import check_guards
from atlas.audit.verification.crosscheck import cross_check
from atlas.cli.doctor.effects import check_effects
from atlas.cli.doctor.finding import Diagnosis, finding, readable
from atlas.cli.doctor.grants import check_grants
from atlas.cli.doctor.history import check_history
from atlas.cli.doctor.horizon import check_horizon
from atlas.cli.doctor.replica import check_replica
from atlas.db.login import login_statements
from atlas.db.migrations import pending
from atlas.db.pool import OLDEST_POSTGRES, Connection, open_pool
from atlas.db.pooler import is_behind_pooler
from atlas.db.schema import ROLES, role, schema_name
from atlas.db.sql_functions import changed_functions
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.db.versions import is_older, read_version, running_versions
from atlas.errors import AtlasError
from atlas.settings import load_settings
from atlas.version import __version__

SERVER = statement("cli/doctor/sql/server.sql")
FIND_ROLES = statement("cli/doctor/sql/roles.sql")
LOGIN = statement("cli/doctor/sql/login.sql")
MISSING_GRANTS = statement("cli/doctor/sql/missing_grants.sql")
FIND_LOCKED_OUT_OWNER = statement("cli/doctor/sql/locked_out_owner.sql")
CLOCK = statement("cli/doctor/sql/clock.sql")

NEWEST_POSTGRES = 18
CONNECTIONS_NEEDED = 30
WAL_MEGABYTES = 1024
# For so long programs of two versions may run side by side: while machines are upgraded one by one.
UPGRADE_SECONDS = 24 * 3600
CLOCK_TOLERANCE = timedelta(seconds=2)
MAX_NAMED = 5
SLOW_RESPONSE = timedelta(milliseconds=50)

# Setting: the values that the promises need, and what can happen with another.
PROMISES = {
    "fsync": (("on",), "a power cut can lose or corrupt everything"),
    "full_page_writes": (("on",), "a power cut can corrupt pages"),
    "synchronous_commit": (("on", "local", "remote_write", "remote_apply"), "a crash can lose confirmed outcomes"),
    "default_transaction_isolation": (("read committed",), "claims fail instead of passing over each other's jobs"),
    "default_transaction_read_only": (("off",), "nothing can be written"),
}
# Tables of another version lack what these checks read, or would look like tables that someone changed.
_TABLES_UNCHECKED = [
    Diagnosis(check, "warn", "not checked: the tables are those of another version", "See the check of the migrations.")
    for check in ("effects", "history", "audit log", "audit guards")
]
# Only the server can have these; a login cannot.
SERVERS_OWN = ("fsync", "full_page_writes")


async def check_database(conn: Connection, url: str) -> list[Diagnosis]:
    """All checks of a database."""
    server = await fetch_row(conn, SERVER)
    assert server is not None
    migrations = await readable("migrations", _migrations(conn))
    return [
        _version(conn),
        *(_promise(name, server[name]) for name in PROMISES),
        _standby(server),
        _wal(server),
        _connections(server),
        migrations,
        await readable("functions", _functions(conn)),
        await readable("versions", _versions(conn)),
        await _roles(conn, server["login"]),
        await _login(conn, server["login"]),
        await check_grants(conn),
        await _clock(conn),
        await _pool(url),
        _pooler(conn),
        await check_replica(url, load_settings()),
        await readable("xmin horizon", check_horizon(conn)),
        *(_TABLES_UNCHECKED if migrations.verdict == "fail" else await _check_tables(conn)),
    ]


async def _check_tables(conn: Connection) -> list[Diagnosis]:
    return [
        await readable("effects", check_effects(conn)),
        await readable("history", check_history(conn)),
        await readable("audit log", _audit_log(conn)),
        await readable("audit guards", _audit_guards(conn)),
    ]


async def _audit_log(conn: Connection) -> Diagnosis:
    """Whether the newest jobs, and what people configured, agree with the audit log."""
    try:
        if await conn.fetchval("select to_regclass($1)", f"{schema_name()}.audit_log") is None:
            return Diagnosis("audit log", "ok", "it does not exist before the first migration")
        disagreements = await cross_check(conn)
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.UndefinedFunctionError) as error:
        return Diagnosis("audit log", "warn", f"it could not be read: {error}", "See the check of the migrations.")
    return finding(
        "audit log",
        disagreements[0].message if disagreements else "it agrees with the tables",
        fail=bool(disagreements),
        remedy="Run `atlas audit verify`, and find out what changed the table outside of Atlas.",
    )


async def _audit_guards(conn: Connection) -> Diagnosis:
    """Whether the audit log is append-only for everyone, and the programs may not change it."""
    schema = schema_name()
    if await conn.fetchval("select to_regclass($1)", f"{schema}.audit_log") is None:
        return Diagnosis("audit guards", "ok", "they do not exist before the first migration")
    open_ones = await check_guards(conn)
    more = f" And {len(open_ones) - 1} more." if len(open_ones) > 1 else ""
    return finding(
        "audit guards",
        open_ones[0].message + more
        if open_ones
        else "tables, rights, triggers and functions are as Atlas installs them",
        fail=bool(open_ones),
        remedy="Run `atlas audit verify`, which names all, and find out who did that. Revoke what was granted, change"
        " tables and owners back. To install triggers, policies and functions again, run"
        f" `delete from {schema}.system_state where key = 'functions'`, then `atlas migrate`.",
    )


def _version(conn: Connection) -> Diagnosis:
    version = conn.get_server_version()
    return finding(
        "postgres",
        f"{version.major}.{version.minor}",
        fail=version.major < OLDEST_POSTGRES,
        warn=version.major > NEWEST_POSTGRES,
        remedy=f"Use PostgreSQL {OLDEST_POSTGRES} to {NEWEST_POSTGRES}, on which Atlas is tested.",
    )


def _promise(name: str, value: str) -> Diagnosis:
    good, loss = PROMISES[name]
    where = "on the server" if name in SERVERS_OWN else "on the server or for Atlas's login"
    remedy = f"Set {name} to {good[0]!r} {where}: otherwise {loss}."
    return finding(name, value, fail=value not in good, remedy=remedy)


def _standby(server: Any) -> Diagnosis:
    is_standby: bool = server["is_standby"]
    return finding(
        "primary",
        "a standby" if is_standby else "yes",
        fail=is_standby,
        remedy="Set DATABASE_URL to the primary: a standby is read-only. If it names several servers, end it with"
        " ?target_session_attrs=read-write.",
    )


def _wal(server: Any) -> Diagnosis:
    size: int = server["max_wal_megabytes"]
    return finding(
        "max_wal_size",
        f"{size} MB",
        warn=size < WAL_MEGABYTES,
        remedy=f"Raise max_wal_size to {WAL_MEGABYTES} MB or more: otherwise a busy queue checkpoints too often.",
    )


def _connections(server: Any) -> Diagnosis:
    allowed, used = server["connections_allowed"], server["connections_used"]
    return finding(
        "max_connections",
        f"{allowed}, {used} in use",
        warn=allowed - used < CONNECTIONS_NEEDED,
        remedy=f"Keep at least {CONNECTIONS_NEEDED} free: raise max_connections, or close some.",
    )


async def _migrations(conn: Connection) -> Diagnosis:
    try:
        missing, made_by = await pending(conn), await read_version(conn)
    except AtlasError as error:
        return Diagnosis("migrations", "fail", error.message, error.remedy)
    newer = made_by is not None and is_older(__version__, made_by.version)
    applied = f"all applied, by the newer Atlas {made_by.version}" if made_by and newer else "all applied"
    return finding(
        "migrations",
        f"{len(missing)} missing, the first is {missing[0]}" if missing else applied,
        fail=bool(missing),
        remedy="Run `atlas migrate`.",
    )


async def _functions(conn: Connection) -> Diagnosis:
    """Whether the SQL functions are as they were installed."""
    changed = await changed_functions(conn)
    more = f" and {len(changed) - MAX_NAMED} more" if len(changed) > MAX_NAMED else ""
    return finding(
        "functions",
        f"changed in the database: {', '.join(changed[:MAX_NAMED])}{more}" if changed else "as they were installed",
        fail=bool(changed),
        remedy="Find out who changed them. `atlas migrate` installs those of this version again.",
    )


async def _versions(conn: Connection) -> Diagnosis:
    """Whether the programs are of one version, or are being upgraded."""
    running, made_by = await running_versions(conn), await read_version(conn)
    too_old = [version for version in running if made_by and is_older(version.version, made_by.oldest)]
    return finding(
        "versions",
        ", ".join(map(str, running)) or "no program is running",
        fail=bool(too_old),
        warn=len(running) > 1 and running[0].seconds > UPGRADE_SECONDS,
        remedy="Start the programs of the older version again with the newer one: see docs/upgrade.md.",
    )


async def _roles(conn: Connection, login: str) -> Diagnosis:
    # Without them Atlas works as its login, without row-level security between tenants: a warning.
    names = [role(name) for name in ROLES]
    rows = await fetch(conn, FIND_ROLES, names=names)
    statements = [f"create role {row['name']} nologin;" for row in rows if not row["is_there"]]
    # The owner's role is not for the programs: who has it can disable the triggers of the audit log.
    unusable = ", ".join(row["name"] for row in rows if not row["is_usable"] and row["name"] != role("owner"))
    if unusable:
        statements.append(f'grant {unusable} to "{login}";')
    locked_out = await fetch_value(conn, FIND_LOCKED_OUT_OWNER, names=names, schema=schema_name())
    if locked_out:
        statements.append(f'grant {", ".join(names)} to "{locked_out}";')
    missing: int = await fetch_value(
        conn, MISSING_GRANTS, engine_role=role("engine"), owner_role=role("owner"), schema=schema_name()
    )
    if missing or (statements and await conn.fetchval("select to_regnamespace($1)", schema_name()) is not None):
        statements.append(f"select {schema_name()}.secure_tables();")
    states = [
        f"{unusable} cannot be used" if unusable else "usable",
        *([f"{missing} grants are missing"] if missing else []),
        *([f"{locked_out} cannot migrate without them"] if locked_out else []),
    ]
    return finding(
        "roles",
        ", ".join(states),
        warn=bool(statements),
        remedy=f"Have an administrator run: {' '.join(statements)}",
    )


async def _login(conn: Connection, login: str) -> Diagnosis:
    power = await fetch_value(conn, LOGIN, schema=schema_name())
    return finding(
        "login",
        f"{login} {power}, and could disable the triggers of the audit log" if power else f"{login} owns nothing",
        fail=power is not None,
        remedy=f"Have an administrator run: {' '.join(login_statements())} Let DATABASE_URL name that login, and"
        " ATLAS_OWNER_URL, where `atlas migrate` runs, the login of now.",
    )


async def _clock(conn: Connection) -> Diagnosis:
    before = datetime.now(UTC)
    theirs: datetime = await fetch_value(conn, CLOCK)
    after = datetime.now(UTC)
    # The server read its clock somewhere in between: the round trip itself is no difference.
    apart = max(before - theirs, theirs - after, timedelta(0))
    return finding(
        "clock",
        f"{apart.total_seconds():.3f} s apart from the server's",
        warn=apart > CLOCK_TOLERANCE,
        remedy="Run NTP on both machines; Atlas only uses the server's clock.",
    )


def _pooler(conn: Connection) -> Diagnosis:
    if not is_behind_pooler(conn):
        return finding("pooler", "none")
    listens = load_settings().atlas_listen_database_url is not None
    return finding(
        "pooler",
        "yes" if listens else "yes, without notifications",
        warn=not listens,
        remedy="Set ATLAS_LISTEN_DATABASE_URL to the server itself: without it idle workers see a new job when they"
        " poll (ATLAS_POLL_MS), and live pages change as late.",
    )


async def _pool(url: str) -> Diagnosis:
    try:
        pool = await open_pool(url, size=1, application="atlas doctor")
    except AtlasError as error:
        return Diagnosis("pool", "fail", error.message, error.remedy)
    try:
        async with pool.acquire() as conn:
            await fetch_value(conn, CLOCK)
            started = time.perf_counter()
            await fetch_value(conn, CLOCK)
            response = timedelta(seconds=time.perf_counter() - started)
            role = await conn.fetchval("select current_user")
    finally:
        await pool.close()
    return finding(
        "pool",
        f"acts as {role}, responds in {response.total_seconds() * 1000:.1f} ms",
        warn=response > SLOW_RESPONSE,
        remedy="Run the workers nearer to the database: every claim and every outcome waits for one round trip.",
    )
