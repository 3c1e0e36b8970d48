"""Checks the logins of other applications: whether each that may call `atlas.enqueue` was granted something."""

import asyncpg

from atlas.cli.doctor.finding import Diagnosis, finding
from atlas.db.pool import Connection
from atlas.db.schema import role
from atlas.db.statements import fetch_value, statement

UNGRANTED = statement("cli/doctor/sql/ungranted_logins.sql")


async def check_grants(conn: Connection) -> Diagnosis:
    """Whether a login was left without a grant, as those from before grants named tenants and types."""
    try:
        logins: list[str] = await fetch_value(conn, UNGRANTED, role=role("enqueuer"))
    except (asyncpg.UndefinedTableError, asyncpg.InsufficientPrivilegeError) as error:
        return Diagnosis("grants", "warn", f"not checked: {error}", "See the checks of the migrations and the roles.")
    return finding(
        "grants",
        f"these logins may enqueue nothing: {', '.join(logins)}" if logins else "every login has its tenants and types",
        warn=bool(logins),
        remedy="Run `atlas grant enqueue LOGIN --tenant … --type …` for what each needs, or revoke its role:"
        f" revoke {role('enqueuer')} from LOGIN;",
    )
