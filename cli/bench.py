"""`atlas bench`: the benchmarks of a checkout."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from atlas.cli.output import Json, say
from atlas.errors import NotFound

ROOT = Path(__file__).parent.parent


def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Which; all of them if none.")] = None,
    peers: Annotated[bool, typer.Option("--peers", help="Measure the comparable queues in the same run.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: a smoke test, not figures.")] = False,
    json: Json = False,
) -> None:
    """Measure Atlas on this machine, beside bare SQL and beside its peers."""
    if not (ROOT / "bench" / "__main__.py").exists():
        raise NotFound("folder", ROOT / "bench", remedy="Run it from a checkout of Atlas: an install leaves it out.")
    options = [f"--{name}" for name, wanted in (("peers", peers), ("quick", quick)) if wanted]
    # Tables are for people; the one document on stdout names where the figures are kept.
    out = sys.stderr if json else None
    failed = subprocess.run(
        [sys.executable, "-m", "bench", *options, *(names or [])], cwd=ROOT, stdout=out, check=False
    )
    if json:
        kept = sorted(str(path) for path in (ROOT / "bench" / "results").glob("*.json"))
        say({"failed": failed.returncode, "results": kept}, "", json=True)
    raise typer.Exit(1 if failed.returncode else 0)
