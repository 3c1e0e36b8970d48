"""`python -m bench.figures`: writes the tables and charts of the pages from the figures of the last run.

`python -m bench.peers --store` puts a run's rows into `bench/figures.json`. A page holds a block between two comments,
`<!-- figures: NAME -->` and `<!-- end of figures -->`; what stands between them is written from there.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.charts import Bar, draw
from bench.peers.measure import ROWS, Delay, Figure, PeerRow, amount_of
from bench.peers.peer import Sizes

ROOT = Path(__file__).parents[1]
STORED = Path(__file__).with_name("figures.json")
CHARTS = ROOT / "docs" / "charts"
PAGES = (ROOT / "docs" / "speed.md", ROOT / "README.md")
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.S)
NAMES = {
    "atlas": "Atlas",
    "atlas-in-one-process": "Atlas, in one process",
    "atlas-workflows": "Atlas",
    "awa": "Awa",
    "bullmq": "BullMQ (Redis, no fsync)",
    "dbos": "DBOS",
    "restate": "Restate (no Postgres)",
}
NOT_ON_POSTGRES = ("bullmq", "restate")
STEPS = 5
RATES = {
    "drain": "Drain, jobs/s",
    "enqueue_singly": "Enqueue one by one, jobs/s",
    "enqueue_bulk": "Enqueue in bulk, 1,000 at a time, jobs/s",
    "workflows": "Workflows of five steps, steps/s",
}
DELAYS = {
    ("latency", "after_call"): "From the call of enqueue to the start of the handler, ms: p50, line to p99",
    ("latency", "after_return"): "From the return of enqueue to the start of the handler, ms: p50, line to p99",
    (
        "workflow_latency",
        "after_call",
    ): "From the call that starts a workflow to the end of step 5, ms: p50, line to p99",
}


def read(path: Path = STORED) -> dict[str, PeerRow]:
    """The rows of the last run of each."""
    rows: dict[str, PeerRow] = json.loads(path.read_text()) if path.exists() else {}
    return rows


def keep(row: str, taken: PeerRow, path: Path) -> None:
    """Replace what is stored of this row."""
    path.parent.mkdir(exist_ok=True)
    rows = {**read(path), row: taken}
    path.write_text(json.dumps({name: rows[name] for name in ROWS if name in rows}, indent=1) + "\n")


def write_pages() -> None:
    """Write every chart, and every block of the pages."""
    rows = read()
    CHARTS.mkdir(exist_ok=True)
    for name, text in charts(rows).items():
        (CHARTS / name).write_text(text)
    for page in PAGES:
        page.write_text(with_figures(page.read_text(), rows))


def with_figures(page: str, rows: dict[str, PeerRow]) -> str:
    """The page with its blocks written anew."""
    return BLOCK.sub(lambda block: f"{block[1]}{BLOCKS[block[2]](rows)}\n{block[3]}", page)


def charts(rows: dict[str, PeerRow]) -> dict[str, str]:
    """Every chart by the name of its file."""
    drawn = {f"{row}.svg": draw(title, _rate_bars(row, rows[row])) for row, title in RATES.items() if row in rows}
    for (row, side), title in DELAYS.items():
        if row in rows:
            drawn[f"{row}_{side}.svg"] = draw(title, _delay_bars(side, rows[row]))
    return drawn


def summary(figure: Figure) -> str:
    """One system's figure in a row, for the console."""
    if "reason" in figure:
        return figure["reason"]
    if "rates" in figure:
        return f"{_rate(figure)} a second"
    return f"{_delay(figure['after_call'])} ms from the call, {_delay(figure['after_return'])} ms from its return"


def _rate_bars(row: str, taken: PeerRow) -> list[Bar]:
    factor = STEPS if row == "workflows" else 1
    bars = []
    for name, figure in taken["systems"].items():
        if "rates" in figure:
            rates = [factor * rate for rate in figure["rates"]]
            label = f"{median(rates):,.0f}"
            bars.append(Bar(_name(name), median(rates), label, min(rates), max(rates), _is_own(name)))
        else:
            bars.append(Bar(_name(name), None, "not measured"))
    return bars


def _delay_bars(side: str, taken: PeerRow) -> list[Bar]:
    bars = []
    for name, figure in taken["systems"].items():
        delay = _side(figure, side)
        if delay is None:
            bars.append(Bar(_name(name), None, "not measured"))
        else:
            label = f"{delay['p50']:.2f} / {delay['p99']:.2f}"
            bars.append(Bar(_name(name), delay["p50"], label, delay["p50"], delay["p99"], _is_own(name)))
    return bars


def _jobs_table(rows: dict[str, PeerRow]) -> str:
    columns = {row: RATES[row] for row in ("drain", "enqueue_singly", "enqueue_bulk")}
    return _table(rows, columns, lambda row, figure: _rate(figure)) + _note(rows, "drain", "Drained jobs")


def _latency_table(rows: dict[str, PeerRow]) -> str:
    sides = {"after_call": "call to start, p50 / p99 ms", "after_return": "return to start, p50 / p99 ms"}
    lines = ["| | " + " | ".join(sides.values()) + " |", "| --- | ---: | ---: |"]
    for name, figure in rows["latency"]["systems"].items() if "latency" in rows else ():
        cells = [_delay_cell(figure, side) for side in sides]
        lines.append(f"| {_name(name)} | {' | '.join(cells)} |")
    return "\n".join(lines) + _note(rows, "latency", "Timed jobs")


def _workflows_table(rows: dict[str, PeerRow]) -> str:
    columns = {"workflows": "steps/s", "workflow_latency": "call to the end of step 5, p50 / p99 ms"}
    table = _table(
        rows,
        columns,
        lambda row, figure: _rate(figure, STEPS) if row == "workflows" else _delay_cell(figure, "after_call"),
    )
    return table + _note(rows, "workflows", "Workflows") + _note(rows, "workflow_latency", "Timed workflows")


def _table(rows: dict[str, PeerRow], columns: dict[str, str], cell: Callable[[str, Figure], str]) -> str:
    columns = {row: title for row, title in columns.items() if row in rows}
    lines = ["| | " + " | ".join(columns.values()) + " |", "| --- |" + " ---: |" * len(columns)]
    for name in dict.fromkeys(name for row in columns for name in rows[row]["systems"]):
        cells = [cell(row, rows[row]["systems"].get(name, {"reason": ""})) for row in columns]
        lines.append(f"| {_name(name)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _systems_list(rows: dict[str, PeerRow]) -> str:
    """What each system ran with, and why a figure is missing."""
    lines: dict[str, str] = {}
    for row, taken in rows.items():
        for name, figure in taken["systems"].items():
            if "reason" in figure:
                lines[f"{name}, {row}"] = f"- {_name(name)} has no {row.replace('_', ' ')}: {figure['reason']}"
            elif name != "atlas-in-one-process":
                lines.setdefault(name, f"- {_name(name)} {figure['version']}: {figure['settings']}")
    return "\n".join(lines.values())


def _runs_list(rows: dict[str, PeerRow]) -> str:
    """When each row was measured, on what."""
    return "\n".join(
        f"- {row.replace('_', ' ')}: {taken['taken_at'][:16].replace('T', ' ')} UTC, {taken['machine']},"
        f" {taken['server']}, {_amounts(taken)}"
        for row, taken in rows.items()
    )


def _amounts(taken: PeerRow) -> str:
    """How much each system was given in a round; the same for all but a few."""
    amounts = {name: figure["amount"] for name, figure in taken["systems"].items() if "amount" in figure}
    common = max(amounts.values(), default=0)
    fewer = [f"{amount:,} by {_name(name)}" for name, amount in amounts.items() if amount < common]
    rounds = f"{taken['rounds']} rounds" if taken["rounds"] > 1 else "one round"
    return f"{rounds} of {common:,}" + (f" ({', '.join(fewer)})" if fewer else "")


def _note(rows: dict[str, PeerRow], row: str, what: str) -> str:
    """How much was measured, which a reader has to know to judge the figures."""
    if row not in rows:
        return ""
    amount = max((figure.get("amount", 0) for figure in rows[row]["systems"].values()), default=0)
    short = " A short run." if amount < amount_of(row, Sizes()) else ""
    return f"\n\n{what}: {_amounts(rows[row])}, on {rows[row]['taken_at'][:10]}.{short}"


def _best_table(rows: dict[str, PeerRow]) -> str:
    """Atlas beside the best other queue on Postgres, for the first page."""
    lines = [
        "| what | Atlas | best other queue on Postgres | BullMQ (Redis, no fsync) |",
        "| --- | ---: | ---: | ---: |",
    ]
    for row in ("drain", "enqueue_singly", "enqueue_bulk"):
        if row in rows:
            best = max(_others(rows[row]), key=lambda name: median(rows[row]["systems"][name].get("rates", [0.0])))
            lines.append(_best_line(RATES[row], rows[row], best, _rate))
    if "latency" in rows:
        systems = rows["latency"]["systems"]
        timed = [name for name in _others(rows["latency"]) if "after_call" in systems[name]]
        best = min(timed, key=lambda name: systems[name]["after_call"]["p50"])
        what = "Call of enqueue to start of the handler in another process, p50 / p99 ms"
        lines.append(_best_line(what, rows["latency"], best, lambda figure: _delay_cell(figure, "after_call")))
    return "\n".join(lines) + _note(rows, "drain", "Drained jobs") + _note(rows, "latency", "Timed jobs")


def _others(taken: PeerRow) -> list[str]:
    return [name for name in taken["systems"] if not _is_own(name) and name not in NOT_ON_POSTGRES]


def _best_line(what: str, taken: PeerRow, best: str, cell: Callable[[Figure], str]) -> str:
    own, other, redis = (cell(taken["systems"].get(name, {})) for name in ("atlas", best, "bullmq"))
    return f"| {what} | {own} | {other} {_name(best)} | {redis} |"


def _rate(figure: Figure, factor: int = 1) -> str:
    """The median of the rounds, with the lowest and the highest."""
    if "rates" not in figure:
        return "–"
    rates = [factor * rate for rate in figure["rates"]]
    return f"{median(rates):,.0f} ({min(rates):,.0f}–{max(rates):,.0f})"


def _delay(delay: Delay) -> str:
    """Percentiles of all rounds, with the lowest and highest of one."""
    (low, high), (lowest, highest) = delay["p50_spread"], delay["p99_spread"]
    return f"{delay['p50']:.2f} / {delay['p99']:.2f} ({low:.2f}–{high:.2f} / {lowest:.2f}–{highest:.2f})"


def _delay_cell(figure: Figure, side: str) -> str:
    delay = _side(figure, side)
    return "–" if delay is None else _delay(delay)


def _side(figure: Figure, side: str) -> Delay | None:
    return figure.get("after_call") if side == "after_call" else figure.get("after_return")


def _name(system: str) -> str:
    return NAMES.get(system, system)


def _is_own(system: str) -> bool:
    return system.startswith("atlas")


BLOCKS: dict[str, Callable[[dict[str, PeerRow]], str]] = {
    "jobs": _jobs_table,
    "latency": _latency_table,
    "workflows": _workflows_table,
    "systems": _systems_list,
    "runs": _runs_list,
    "best": _best_table,
}


if __name__ == "__main__":
    write_pages()
