"""`atlas bench`: runs the benchmarks of a checkout."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from atlas.cli.terminal.output import Json, say
from atlas.errors import NotFound

ROOT = Path(__file__).parent.parent


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]", help="The measurements; all of them if not given.")
    ] = None,
    peers: Annotated[bool, typer.Option("--peers", help="Measure comparable queues in the same run.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, as a smoke test.")] = False,
    json: Json = False,
) -> None:
    """Measure Atlas on this machine, beside plain SQL and comparable queues."""
    if not (ROOT / "bench" / "__main__.py").exists():
        raise NotFound("folder", ROOT / "bench", remedy="Run it in a checkout of Atlas: the wheel does not contain it.")
    options = [f"--{name}" for name, is_on in (("peers", peers), ("quick", quick)) if is_on]
    # With --json stdout carries one document, which names the files with the figures.
    out = sys.stderr if json else None
    failed = subprocess.run(
        [sys.executable, "-m", "bench", *options, *(names or [])], cwd=ROOT, stdout=out, check=False
    )
    if json:
        files = sorted(str(path) for path in (ROOT / "bench" / "results").glob("*.json"))
        say({"failed": failed.returncode, "results": files}, "", json=True)
    raise typer.Exit(1 if failed.returncode else 0)
