"""`python -m bench.peers --rows drain,latency --peers pgqueuer`: Atlas beside comparable queues on one server."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from atlas.errors import AtlasError
from atlas.postgres.cluster import start_embedded
from atlas.settings import load_settings
from bench import figures
from bench.peers.measure import ROWS, measure_row
from bench.peers.measurement import PEERS
from bench.peers.peer import Sizes

RESULTS = Path(__file__).parents[1] / "results"
QUICK = Sizes(drain=2_000, singly=100, bulk=2_000, latency=20, workflows=50, workflow_latency=20, rounds=1)
console = Console()


def main(
    rows: Annotated[str, typer.Option(help="Which rows, with commas between.")] = ",".join(ROWS),
    peers: Annotated[str, typer.Option(help="Which peers, with commas between.")] = ",".join(PEERS),
    rounds: Annotated[int, typer.Option(help="How often; the median is shown.")] = Sizes().rounds,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: a smoke test, not figures.")] = False,
    store: Annotated[bool, typer.Option("--store", help="Store the rows; write the pages and charts of them.")] = False,
    database_url: Annotated[str | None, typer.Option(help="The server; without one, an embedded Postgres.")] = None,
) -> None:
    """Measure Atlas beside comparable queues and workflow engines on one server."""
    sizes = QUICK if quick else Sizes(rounds=rounds)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what it started, as Ctrl-C does
    path = figures.STORED if store else RESULTS / "peers.json"
    try:
        asyncio.run(_run(database_url, _chosen(rows, ROWS), sizes, _chosen(peers, tuple(PEERS)), path))
    except AtlasError as error:
        sys.exit(str(error))
    console.print(f"written to {path}")
    if store:
        figures.write_pages()


def _chosen(names: str, choices: tuple[str, ...]) -> list[str]:
    for name in names.split(","):
        if name not in choices:
            raise typer.BadParameter(f"There is no {name}. Choose from {', '.join(choices)}.")
    return names.split(",")


async def _run(database_url: str | None, rows: list[str], sizes: Sizes, peers: list[str], path: Path) -> None:
    """Measure row by row, and keep each as soon as it is measured."""
    async with _server(database_url) as url:
        for row in rows:
            taken = await measure_row(url, row, sizes, peers=peers, progress=console.print)
            figures.keep(row, taken, path)
            for name, figure in taken["systems"].items():
                console.print(f"  {name}: {figures.summary(figure)}", highlight=False)


@asynccontextmanager
async def _server(database_url: str | None) -> AsyncIterator[str]:
    settings = load_settings()
    url = database_url or settings.database_url
    if url:
        yield url
        return
    server = await start_embedded(settings.home / "bench")
    try:
        yield server.url("postgres")
    finally:
        server.release()


if __name__ == "__main__":
    typer.run(main)
