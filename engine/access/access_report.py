"""The access review of a month: who could do what, who did, and which credentials no one used.

Tokens, sessions and grants are those of the tables, so what was deleted since is missing; what people did is counted
from the audit log.
"""

import csv
import io
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.schema import role
from atlas.db.statements import fetch, fetch_value, statement
from atlas.engine.metering.insights_csv import text
from atlas.errors import FieldError, InvalidInput
from atlas.models.access import AccessActivity, AccessCredential, AccessReport

CREDENTIALS = statement("engine/access/sql/access_credentials.sql")
ACTIVITY = statement("engine/access/sql/access_activity.sql")
LAST_BEFORE = statement("engine/access/sql/last_audit_id_before.sql")

ROLES = ("owner", "engine", "tenant", "enqueuer")
# Of credentials, and of the lines of what was done, the most frequent first.
MAX_ROWS = 5_000
COLUMNS = (
    *("section", "kind", "subject", "role", "tenant_id", "scope", "created_at", "created_by", "ends_at"),
    *("last_used_at", "is_dormant", "action", "count"),
)
_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII)


async def report_access(conn: Connection, month: str, *, tenant_id: UUID | None = None) -> AccessReport:
    """The access review of a month such as 2026-11, in UTC."""
    begins_at, ends_at = _period(month)
    options = {"begins_at": begins_at, "ends_at": ends_at, "tenant_id": tenant_id, "limit": MAX_ROWS + 1}
    # Not the log of all years: a month is read by the ids of its rows.
    options["after"] = await fetch_value(conn, LAST_BEFORE, at=begins_at)
    activity = [AccessActivity(**row) for row in await fetch(conn, ACTIVITY, **options)]
    used: dict[tuple[str, UUID | None], datetime] = {}
    for entry in activity:
        key = (entry.actor_id, entry.tenant_id)
        used[key] = max(entry.last_at, used.get(key, entry.last_at))
    rows = await fetch(conn, CREDENTIALS, **options, roles=[role(name) for name in ROLES])
    credentials = [_credential(dict(row), used, begins_at, ends_at) for row in rows]
    is_cut = len(credentials) > MAX_ROWS or len(activity) > MAX_ROWS
    return AccessReport(
        month=month,
        begins_at=begins_at,
        ends_at=ends_at,
        tenant_id=tenant_id,
        credentials=credentials[:MAX_ROWS],
        activity=activity[:MAX_ROWS],
        is_cut=is_cut,
    )


def report_csv(report: AccessReport) -> str:
    """The report as one table: a row for each credential, then for each action of each actor."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    writer.writerows(map(_cells, _rows(report)))
    return file.getvalue()


def _rows(report: AccessReport) -> Iterable[dict[str, Any]]:
    for credential in report.credentials:
        values = {name: getattr(credential, name) for name in COLUMNS[1:11]}
        yield {"section": "credential", **values}
    for entry in report.activity:
        document = {
            "kind": entry.actor_type,
            "subject": entry.actor_id,
            "tenant_id": entry.tenant_id,
            "action": entry.action,
        }
        yield {"section": "activity", **document, "count": entry.count, "last_used_at": entry.last_at}


def _cells(row: dict[str, Any]) -> list[str]:
    values = [row.get(name) for name in COLUMNS]
    return [f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else text(value) for value in values]


def _credential(
    row: dict[str, Any], used: dict[tuple[str, UUID | None], datetime], begins_at: datetime, ends_at: datetime
) -> AccessCredential:
    if row["kind"] == "grant":
        row["last_used_at"] = used.get((row["subject"], row["tenant_id"]))
    last, created, ends = row["last_used_at"], row["created_at"], row["ends_at"]
    is_old = row["kind"] != "login" and (created is None or created < begins_at)
    is_dormant = is_old and (ends is None or ends >= ends_at) and (last is None or last < begins_at)
    return AccessCredential(**row, is_dormant=is_dormant)


def _period(month: str) -> tuple[datetime, datetime]:
    match = _MONTH.fullmatch(month)
    if match is None or not 1970 <= int(match[1]) <= 9998:
        raise InvalidInput("The report", [FieldError("month", f"{month!r} is not a month such as 2026-11")])
    year, number = int(match[1]), int(match[2])
    following = (year, number + 1) if number < 12 else (year + 1, 1)
    return datetime(year, number, 1, tzinfo=UTC), datetime(*following, 1, tzinfo=UTC)
