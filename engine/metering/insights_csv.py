"""Insights as CSV: a row for each step, or for each type or tenant in each step, for spreadsheets and programs.

It is read some steps at a time, each in a transaction of its own, so that a slow reader holds nothing.
"""

import csv
import io
import re
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from atlas.engine.jobs.lists.counts import Transaction
from atlas.engine.metering.flow import sums
from atlas.engine.metering.insights import InsightsQuery, Window, find_window, group_name, slugs_of
from atlas.engine.metering.series import STEPS, read_sums

STEPS_AT_ONCE = 31
COLUMNS = (
    *("begins_at", "tenant", "job_type", "enqueued", "finished", "succeeded", "failed", "dead_lettered", "canceled"),
    *("attempts", "retried", "timed_out", "lost", "success_rate", "retry_rate", "dead_letter_rate"),
    *("wait_p50", "wait_p95", "run_p50", "run_p95", "run_seconds", "cost_cents", "currency"),
)

# A spreadsheet runs what begins so as a formula.
_FORMULA = re.compile(r"[\s]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")


async def csv_name(transaction: Transaction, query: InsightsQuery) -> str:
    """The name of the file: whose figures it has, and from when to when."""
    async with transaction() as conn:
        window = await find_window(conn, query)
        slugs = await slugs_of(conn, [] if query.tenant_id is None else [str(query.tenant_id)])
    tenant = "all-tenants" if query.tenant_id is None else next(iter(slugs.values()), str(query.tenant_id))
    return f"insights_{tenant}_{window.start:%Y-%m-%dT%H%MZ}_{window.end:%Y-%m-%dT%H%MZ}.csv"


async def csv_lines(transaction: Transaction, query: InsightsQuery) -> AsyncIterator[bytes]:
    """The header, then the rows of each step, the oldest first."""
    async with transaction() as conn:
        window = await find_window(conn, query)
        slugs = await slugs_of(conn, [] if query.tenant_id is None else [str(query.tenant_id)])
    yield _written([COLUMNS])
    own = next(iter(slugs.values()), None)
    steps = window.steps
    for first in range(0, len(steps), STEPS_AT_ONCE):
        some = steps[first : first + STEPS_AT_ONCE]
        if rows := await _rows(transaction, query, window, some, own):
            yield _written(rows)


async def _rows(
    transaction: Transaction, query: InsightsQuery, window: Window, steps: Sequence[datetime], own: str | None
) -> list[list[Any]]:
    length = STEPS[window.series.step]
    end = min(steps[-1] + length, window.end)
    async with transaction() as conn:
        step_sums = await read_sums(conn, window.series, steps[0], end, by=query.by, most=None)
        slugs = await slugs_of(conn, list(step_sums)) if query.by == "tenant" else {}
    rows = []
    for name, points in step_sums.items():
        whose = group_name(query.by, name, slugs)
        tenant, job_type = whose["tenant"] or whose["tenant_id"] or own, whose["job_type"] or query.job_type
        rows += [(row["begins_at"], tenant, job_type, sums([row], window.state.bounds)) for row in points]
    rows.sort(key=lambda row: (row[0], str(row[1]), str(row[2])))
    return [
        [_time(at), text(tenant), text(job_type), *_numbers(flow), query.currency]
        for at, tenant, job_type, flow in rows
    ]


def _numbers(flow: dict[str, Any]) -> list[Any]:
    return [flow[name] for name in COLUMNS[3:-1]]


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def text(value: object) -> str:
    """A cell that every spreadsheet takes for text: anyone may name a job type, also after a formula."""
    cell = "" if value is None else str(value)
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _written(rows: Sequence[Sequence[Any]]) -> bytes:
    file = io.StringIO()
    csv.writer(file, lineterminator="\r\n").writerows(rows)
    return file.getvalue().encode()
