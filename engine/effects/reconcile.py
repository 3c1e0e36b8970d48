"""Reconciles the effect ledger with a provider, both ways, by what the provider lists.

The provider is listed first, and the ledger is read after that. A row is in the ledger before its call, so an entry
without a row was not made by Atlas. A row that is done is missed only if it was done `grace` before the listing began,
since a provider may list with a delay.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from atlas.actors import Actor
from atlas.db.pool import Pool
from atlas.db.statements import fetch, fetch_value, statement
from atlas.engine.effects.adapters import EffectAdapter, ProviderEntry
from atlas.engine.effects.comparison import CHUNK, DIFFERENCES, Comparison, LedgerRow
from atlas.engine.effects.reports import save_report
from atlas.engine.effects.settle import settle_effect
from atlas.errors import Conflict, NotFound, Refused
from atlas.ids import first_id
from atlas.models.effect_reports import EffectDifference, EffectReport

NOW = statement("engine/effects/sql/ledger_now.sql")
LEDGER = statement("engine/effects/sql/ledger_page.sql")
EXPLAIN = statement("engine/effects/sql/ledger_of_entries.sql")

# The provider's clock may differ by so much from the database's.
CLOCK_SKEW = timedelta(minutes=10)
# An effect may be called again so long after its row was written.
MAX_REPEAT = timedelta(days=7)
# Rows of a report, of each kind; the counts are of all.
MAX_ROWS = 100

# Told how many entries and effects were read so far.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ReconcileOptions:
    """What is compared: effects of a provider since a time. `settle`: what is unknown here and found there is done."""

    provider: str
    since: datetime
    # For so long the provider may not list what it made; by default what the adapter says.
    grace: timedelta | None = None
    settle: bool = False
    max_rows: int = MAX_ROWS


async def reconcile(
    pool: Pool,
    adapter: EffectAdapter,
    options: ReconcileOptions,
    *,
    actor: Actor,
    progress: Progress = lambda entries, effects: None,
) -> EffectReport:
    """Compare, settle if asked to, and store the report with its event. Looks across tenants: for operators."""
    async with pool.acquire() as conn:
        began_at: datetime = await fetch_value(conn, NOW)
    grace = adapter.grace if options.grace is None else options.grace
    with Comparison(since=options.since, visible_before=began_at - grace) as comparison:
        await _list_entries(adapter, comparison, options, progress)
        await _read_ledger(pool, comparison, options, progress)
        await _explain_entries(pool, comparison, options)
        settled = await _settle_found(pool, comparison, actor) if options.settle else 0
        # In a thread: millions of rows take seconds, and a worker runs other jobs meanwhile.
        counts, rows = await asyncio.to_thread(_count, comparison, options.max_rows)
        in_doubt = await asyncio.to_thread(comparison.count_doubts)
        async with pool.acquire() as conn:
            report = EffectReport(
                provider=options.provider,
                since=options.since,
                visible_before=began_at - grace,
                finished_at=await fetch_value(conn, NOW),
                effects=comparison.count_effects(),
                entries=comparison.count_entries(),
                in_doubt=in_doubt,
                differences=sum(counts.values()),
                settled=settled,
                counts=counts,
                rows=rows,
            )
            await save_report(conn, report, actor=actor)
    return report


async def _list_entries(
    adapter: EffectAdapter, comparison: Comparison, options: ReconcileOptions, progress: Progress
) -> None:
    chunk: list[ProviderEntry] = []
    read = 0
    async for entry in adapter.list(options.since - CLOCK_SKEW):
        chunk.append(entry)
        if len(chunk) >= CHUNK:
            read += len(chunk)
            comparison.add_entries(chunk)
            chunk.clear()
            progress(read, 0)
    comparison.add_entries(chunk)


async def _read_ledger(pool: Pool, comparison: Comparison, options: ReconcileOptions, progress: Progress) -> None:
    entries, read = comparison.count_entries(), 0
    after = first_id(options.since - MAX_REPEAT)
    while True:
        async with pool.acquire() as conn:
            rows = await fetch(conn, LEDGER, provider=options.provider, after=after, since=options.since, limit=CHUNK)
        comparison.add_effects(LedgerRow(*row) for row in rows)
        read += len(rows)
        progress(entries, read)
        if len(rows) < CHUNK:
            return
        after = rows[-1]["id"]


async def _explain_entries(pool: Pool, comparison: Comparison, options: ReconcileOptions) -> None:
    """Look for entries that no row explains among all rows: an effect may be older than the time that is compared."""
    chunks = comparison.unmatched()
    while chunk := await asyncio.to_thread(next, chunks, None):
        references, keys = [reference for reference, _ in chunk], [key for _, key in chunk if key is not None]
        async with pool.acquire() as conn:
            rows = await fetch(conn, EXPLAIN, provider=options.provider, keys=keys, references=references)
        comparison.add_effects((LedgerRow(*row) for row in rows), is_older=True)


async def _settle_found(pool: Pool, comparison: Comparison, actor: Actor) -> int:
    """Settle what is unknown here and was made once there. What a rule forbids, or a person has decided, stays."""
    settled = 0
    for difference in await asyncio.to_thread(list, comparison.differences("found")):
        if difference.effect_id is None or len(difference.provider_references) != 1:
            continue
        reference = difference.provider_references[0]
        try:
            async with pool.acquire() as conn:
                await settle_effect(conn, difference.effect_id, "done", reference=reference, actor=actor)
        except (Conflict, NotFound, Refused):
            continue
        comparison.settle(difference.effect_id, reference)
        settled += 1
    return settled


def _count(comparison: Comparison, max_rows: int) -> tuple[dict[str, int], list[EffectDifference]]:
    """How many differences of each kind there are, and the first of them."""
    counts, rows = {}, []
    for kind in DIFFERENCES:
        differences = comparison.differences(kind)
        first = list(islice(differences, max_rows))
        rows += first
        if first:
            counts[kind] = len(first) + sum(1 for _ in differences)
    return counts, rows
