"""`python -m bench.jobs [--quick] [--only PART]`: the figures of the job engine, beside bare SQL."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from atlas.cli.programs.long_running import relax_garbage_collection
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from bench import drift
from bench.jobs import crowd, drain, enqueue, latency, shapes, variants

T = TypeVar("T")
RESULTS = Path(__file__).parents[1] / "results"
COMPARED = (*variants.PROCESSES, variants.LIMITED)
console = Console()


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One row: a figure, what it is held against, and what is asked of it."""

    what: str
    figure: str
    beside: str
    ratio: float | None = None
    asked: str = ""
    # What the ratio compares with, in words alone: the gate's name of a ratio has no figure of one run.
    base: str = ""


async def main() -> int:
    """Measure everything, print the table, keep the JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.jobs", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: a smoke test, not figures")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone; may be repeated")
    parser.add_argument("--gate", action="store_true", help="fail if a ratio is far below the stored one")
    parser.add_argument("--store", action="store_true", help="with --gate: store the ratios of this run instead")
    chosen = parser.parse_args()
    configure_logs("error")
    relax_garbage_collection()  # as `atlas worker` does
    url, release = await _server()
    try:
        rows = await _measure(url, chosen.only or list(PARTS), quick=chosen.quick)
    finally:
        release()
    _show(rows)
    _keep(rows)
    return _compare_with_stored(rows, is_part=bool(chosen.only), is_stored=chosen.store) if chosen.gate else 0


def _compare_with_stored(rows: list[FigureRow], *, is_part: bool, is_stored: bool) -> int:
    """Compare the ratios with the stored ones, or store them. Returns 1 if one became much worse."""
    ratios = gate_ratios(rows)
    if is_stored:
        drift.store(ratios, is_part=is_part)
        console.print(f"stored {len(ratios)} ratios of a machine with {drift.machine()}")
        return 0
    try:
        worse = drift.drifted(ratios, is_part=is_part)
    except LookupError as error:
        console.print(str(error))
        return 1
    for sentence in worse:
        console.print(sentence)
    console.print(
        "The gate is closed: something became slower." if worse else "The gate is open: nothing became slower."
    )
    return 1 if worse else 0


def gate_ratios(rows: Sequence[FigureRow]) -> dict[str, float]:
    """The ratios that have a bound, by names that every run gives them. Where less is better, the reciprocal."""
    return {
        f"{row.what} beside {row.base}" if row.base else row.what: row.ratio if row.asked[0] == "≥" else 1 / row.ratio
        for row in rows
        if row.ratio is not None and row.asked[:1] in ("≥", "≤")
    }


async def _server() -> tuple[str, Any]:
    if url := os.environ.get("DATABASE_URL"):
        return url, lambda: None
    home = Path(os.environ.get("ATLAS_HOME", ".atlas")).resolve() / "bench"
    home.mkdir(parents=True, exist_ok=True)
    server = await start_embedded(home)
    return server.url("postgres"), server.release


async def _measure(url: str, parts: Sequence[str], *, quick: bool) -> list[FigureRow]:
    """The rows of these parts. The order is that of PARTS: after the drains the server is busy writing for minutes."""
    rows: list[FigureRow] = []
    for part, measure in PARTS.items():
        if part in parts:
            rows += await _status(part, measure(url, quick))
    return rows


async def _memory(url: str, quick: bool) -> list[FigureRow]:
    memory = await crowd.measure_memory(url)
    return [FigureRow("worker with 1,000 sleeping jobs, MB", f"{memory:.0f}", "", asked="< 150")]


async def _latency(url: str, quick: bool) -> list[FigureRow]:
    waited = await latency.measure(url, jobs=60 if quick else 200, repeats=1 if quick else 5)
    return [
        FigureRow(
            "enqueue to start, p50 ms", f"{waited.p50:.2f}", f"{waited.bare_p50:.2f} bare round trip", asked="< 1"
        ),
        FigureRow(
            "enqueue to start, p99 ms", f"{waited.p99:.2f}", f"{waited.bare_p99:.2f} bare round trip", asked="< 4"
        ),
        FigureRow(
            "the same without notifications, worst ms",
            f"{waited.deaf_worst:.0f}",
            f"{waited.poll:.0f} poll",
            waited.deaf_worst / waited.poll,
            "≤ 1.2",
        ),
    ]


async def _drain(url: str, quick: bool) -> list[FigureRow]:
    drained = await drain.measure(url, jobs=10_000 if quick else 100_000, repeats=1 if quick else 5)
    return [
        compare_rates("drain, jobs/s", drained.worker, drained.bare, "bare turns", "≥ 0.8"),
        compare_rates(
            "drain beside a limited type, jobs/s", drained.limited_elsewhere, drained.worker, "without", "≥ 0.95"
        ),
        compare_rates("drain with its audit rows, jobs/s", drained.worker, drained.unaudited, "without", "≥ 0.85"),
    ]


async def _shapes(url: str, quick: bool) -> list[FigureRow]:
    drained = await shapes.measure(url, jobs=10_000 if quick else 100_000, repeats=1 if quick else 3)
    return [
        compare_rates(f"drain of {shape} types × tenants, jobs/s", rates, drained[shapes.ONE], "1 × 1", "≥ 0.85")
        for shape, rates in drained.items()
        if shape is not shapes.ONE
    ]


async def _variants(url: str, quick: bool) -> list[FigureRow]:
    """Not among the ratios of the gate: few jobs, once each."""
    rates = await variants.measure(url, jobs=2_000 if quick else 20_000)
    _show_variants(rates)
    return []


async def _enqueue(url: str, quick: bool) -> list[FigureRow]:
    enqueued = await enqueue.measure(url, singly=500 if quick else 3000, bulk=10_000 if quick else 50_000)
    return [
        compare_rates("enqueue singly, jobs/s", enqueued.single, enqueued.bare_single, "bare, the same rows", "≥ 0.7"),
        compare_rates("enqueue singly, jobs/s", enqueued.single, enqueued.job_alone, "bare, no audit row", ""),
        compare_rates("enqueue in bulk, jobs/s", enqueued.bulk, enqueued.bare_bulk, "bare, the same rows", "≥ 0.6"),
    ]


async def _crowd(url: str, quick: bool) -> list[FigureRow]:
    crowded = await crowd.measure_claims(url, crowd=20_000 if quick else 1_000_000)
    return [
        FigureRow(
            f"claim of one behind {measured.name}, ms",
            f"{measured.behind:.2f}",
            f"{measured.empty:.2f} empty",
            measured.behind / measured.empty,
            "≤ 1.2",
        )
        for measured in crowded
    ]


PARTS = {
    "memory": _memory,
    "latency": _latency,
    "drain": _drain,
    "shapes": _shapes,
    "variants": _variants,
    "enqueue": _enqueue,
    "crowd": _crowd,
}


def compare_rates(what: str, ours: list[float], theirs: list[float], name: str, asked: str) -> FigureRow:
    """Two ways that took turns: the median of each, and of how they compare round by round."""
    beside = f"{median(theirs):,.0f} {name}"
    return FigureRow(what, f"{median(ours):,.0f}", beside, drain.in_turn(ours, theirs), asked, base=name)


async def _status(name: str, measuring: Awaitable[T]) -> T:
    with console.status(f"measuring {name}"):
        return await measuring


def _show(rows: list[FigureRow]) -> None:
    table = Table("what", "Atlas", "beside", "ratio", "asked", title="The life of a job", title_justify="left")
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        table.add_row(row.what, row.figure, row.beside, ratio, row.asked)
    console.print(table)


def _show_variants(rates: Mapping[shapes.Shape, Mapping[variants.Variant, float]]) -> None:
    """Ratios to one type of one tenant in the same variant; more processes, and a limit elsewhere, to one process."""
    table = Table("types × tenants, ratio to 1 × 1 (≥ 0.85)", *map(str, variants.VARIANTS))
    for shape, row in rates.items():
        cells = (f"{rate / rates[shapes.ONE][how]:.2f}" for how, rate in row.items())
        table.add_row(str(shape), *(f"{rate:,.0f}/s" for rate in row.values()) if shape is shapes.ONE else cells)
    console.print(table)
    beside = Table("types × tenants, ratio to one process without a limit", *map(str, COMPARED))
    for shape, row in rates.items():
        beside.add_row(str(shape), *(f"{row[how] / row[variants.LIST]:.2f}" for how in COMPARED))
    beside.add_row("asked", *("≥ 0.95" if how is variants.LIMITED else "≥ 1" for how in COMPARED))
    console.print(beside)


def _keep(rows: list[FigureRow]) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"jobs-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    content = [{name: getattr(row, name) for name in row.__slots__} for row in rows]
    path.write_text(json.dumps(content, indent=2) + "\n")
    console.print(f"kept in {path}")


if __name__ == "__main__":
    try:
        import uvloop

        code = uvloop.run(main())
    except ImportError:
        code = asyncio.run(main())
    sys.exit(code)
