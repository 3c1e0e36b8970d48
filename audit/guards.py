"""Checks what keeps the audit log append-only: triggers, the functions behind them, and the rights of the roles.

A superuser can remove all of it, change the audit log, and put it back; that is found by verification. Guards that were
left open are found here: they let others do so.
"""

import re
from functools import cache

from atlas.audit.verifier.format import Finding
from atlas.db.pool import Connection
from atlas.db.schema import schema_name
from atlas.db.sql_functions import function_files
from atlas.db.statements import fetch, statement

GUARDS = statement("audit/sql/guards.sql")
# The function of the triggers, and those that may remove something.
FUNCTIONS = ("audit_is_append_only", "audit_erase", "audit_prune", "audit_new_epoch")

_BODY = re.compile(r" as \$\$(.*?)\$\$;", re.DOTALL)


async def check_guards(conn: Connection) -> list[Finding]:
    """What is not as Atlas installs it."""
    bodies = installed_bodies()
    rows = await fetch(conn, GUARDS, schema=schema_name(), functions=list(bodies), bodies=list(bodies.values()))
    return [Finding("guard", _message(row["kind"], row["name"], row["of"], row["problem"])) for row in rows]


@cache
def installed_bodies() -> dict[str, str]:
    """The text of each of those functions, as its file has it."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in function_files() if path.stem in FUNCTIONS}
    found = {name: _BODY.search(text) for name, text in texts.items()}
    return {name: match[1] for name, match in found.items() if match is not None}


def _message(kind: str, name: str, of: str, problem: str) -> str:
    if kind != "role":
        return f"The {kind} {name} of {of} {problem}: the audit log is not guarded as Atlas installs it."
    if problem == "owner":
        return f"The role {name} is a member of {of}, which owns the audit log: it can remove the triggers."
    return f"The role {name} has the right to {problem} on {of}: it could change or remove what was written."
