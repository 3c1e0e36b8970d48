"""Shows the peers' figures as a table and keeps them as JSON."""

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.peers.databases import connected
from bench.peers.measure import Figure, PeerFigures
from bench.peers.peer import Sizes

RESULTS = Path(__file__).parents[1] / "results"
SETTINGS = ("server_version", "fsync", "synchronous_commit", "shared_buffers", "max_wal_size")


def show(figures: dict[str, PeerFigures], sizes: Sizes, console: Console) -> None:
    """A row per peer, then what each ran with and why a figure is missing."""
    title = f"Comparable queues, one worker process: {sizes.drain:,} jobs, {sizes.workflows:,} workflows"
    table = Table(title=title, title_justify="left")
    table.add_column("peer", no_wrap=True)
    for heading in (
        "drain\njobs/s",
        "singly\njobs/s",
        "bulk\njobs/s",
        "start p50/p99\nms",
        f"{sizes.steps} steps\nruns/s",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, peer in figures.items():
        table.add_row(f"{name} {peer['version']}", *(_cell(figure) for figure in peer["figures"].values()))
    console.print(table)
    for name, peer in figures.items():
        console.print(f"[dim]{name}: {peer['settings']}[/dim]", highlight=False)
        _show_reasons(peer, console)


async def keep(figures: dict[str, PeerFigures], sizes: Sizes, database_url: str, path: Path | None) -> Path:
    """Write the figures with the machine and the server they were taken on; returns the path."""
    now = datetime.now(UTC)
    path = path or RESULTS / f"peers-{now:%Y%m%dT%H%M%SZ}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "taken_at": now.isoformat(),
        "machine": {"cores": os.cpu_count(), "kind": platform.machine(), "python": platform.python_version()},
        "server": await _server(database_url),
        "sizes": {name: getattr(sizes, name) for name in sizes.__slots__},
        "peers": figures,
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def _cell(figure: Figure) -> str:
    if "per_second" in figure:
        return f"{figure['per_second']:,.0f}"
    return f"{figure['p50_ms']:.2f} / {figure['p99_ms']:.2f}" if "p50_ms" in figure else "-"


def _show_reasons(peer: PeerFigures, console: Console) -> None:
    verbs: dict[str, list[str]] = {}
    for verb, figure in peer["figures"].items():
        if "reason" in figure:
            verbs.setdefault(figure["reason"], []).append(verb)
    for reason, names in verbs.items():
        console.print(f"[dim]  no {', '.join(names)}: {reason}[/dim]", highlight=False)


async def _server(database_url: str) -> dict[str, str]:
    async with connected(database_url) as conn:
        return {name: await conn.fetchval("select current_setting($1)", name) for name in SETTINGS}
