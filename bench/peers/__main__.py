"""`python -m bench.peers --drain 20000 --peers pgqueuer,pg-boss`: measure, show a table, keep the JSON."""

import asyncio
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
from bench.peers import PEERS, Sizes, keep, measure_peers, show

DEFAULTS = Sizes()


def main(
    peers: Annotated[str, typer.Option(help="Which peers, with commas between.")] = ",".join(PEERS),
    database_url: Annotated[str | None, typer.Option(help="The server; without one, an embedded Postgres.")] = None,
    drain: Annotated[int, typer.Option(help="Jobs to drain; 0 leaves it out.")] = DEFAULTS.drain,
    singly: Annotated[int, typer.Option(help="Jobs to enqueue one at a time.")] = DEFAULTS.singly,
    bulk: Annotated[int, typer.Option(help="Jobs to enqueue in bulk.")] = DEFAULTS.bulk,
    latency: Annotated[int, typer.Option(help="Jobs whose start is timed.")] = DEFAULTS.latency,
    workflows: Annotated[int, typer.Option(help="Workflows to run.")] = DEFAULTS.workflows,
    steps: Annotated[int, typer.Option(help="Steps of each workflow.")] = DEFAULTS.steps,
    repeats: Annotated[int, typer.Option(help="How often; the median is shown.")] = DEFAULTS.repeats,
    batch: Annotated[int | None, typer.Option(help="Replaces every peer's own batch size.")] = None,
    output: Annotated[Path | None, typer.Option(help="Where the JSON goes; bench/results/ by default.")] = None,
) -> None:
    """Measure comparable queues on one Postgres."""
    sizes = Sizes(drain, singly, bulk, latency, workflows, steps, repeats, batch)
    try:
        asyncio.run(_run(database_url, sizes, peers.split(","), output))
    except AtlasError as error:
        sys.exit(str(error))


async def _run(database_url: str | None, sizes: Sizes, peers: list[str], output: Path | None) -> None:
    console = Console()
    async with _server(database_url) as url:
        with console.status("measuring") as status:
            figures = await measure_peers(url, sizes, peers=peers, progress=status.update)
        show(figures, sizes, console)
        console.print(f"written to {await keep(figures, sizes, url, output)}")


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
