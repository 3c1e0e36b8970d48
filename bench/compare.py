"""`python -m bench.compare OTHER [--rounds N]`: this checkout beside another one, in turn, in one run.

Each round of each measurement runs in both checkouts, in the virtual environment of each and on a new database
server of its own, one after the other; the order changes from round to round. A ratio above 1 means that this checkout
is better. Ends with 1 where the median of a figure's ratios is more than 3 % worse.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parents[1]
ONE_ROUND = Path(__file__).with_name("one_round.py").read_text()
MEASUREMENTS = ("drain", "shapes", "variants", "enqueue", "latency", "workflows")
LOWEST_RATIO = 0.97
# Ordinary sizes are divided by this in a smoke test.
QUICK_SCALE = 10

console = Console()


def main() -> int:
    """Compare, print, and return 1 where something became slower."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("other", type=Path, metavar="OTHER", help="a checkout that `make setup` has set up")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement (5)")
    parser.add_argument("--only", choices=MEASUREMENTS, action="append", help="this measurement alone; may be repeated")
    parser.add_argument("--quick", action="store_true", help="small sizes: a smoke test, not figures")
    chosen = parser.parse_args()
    if not (chosen.other / ".venv" / "bin" / "python").exists():
        parser.error(f"{chosen.other} has no .venv: run `make setup` there")
    names = chosen.only or MEASUREMENTS
    for name in ("shapes", "variants"):
        if name in names and not (chosen.other / "bench" / "jobs" / f"{name}.py").exists():
            console.print(f"The measurement {name} is left out: the other checkout does not have it.")
            names = [kept for kept in names if kept != name]
    rounds: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for number in range(chosen.rounds):
        for name in names:
            ours, theirs = _both(name, chosen.other, QUICK_SCALE if chosen.quick else 1, swap=number % 2 == 1)
            for what, figure in ours.items():
                rounds[what].append((figure, theirs[what]))
                console.print(f"round {number + 1}: {what}: {figure:,.2f} here, {theirs[what]:,.2f} there")
    return _report(rounds)


def _both(name: str, other: Path, scale: int, *, swap: bool) -> tuple[dict[str, float], dict[str, float]]:
    """One round here and there, in this order or the other."""
    figures = {checkout: _one_round(name, checkout, scale) for checkout in ((other, HERE) if swap else (HERE, other))}
    return figures[HERE], figures[other]


def _one_round(name: str, checkout: Path, scale: int) -> dict[str, float]:
    environment = {key: value for key, value in os.environ.items() if key not in ("DATABASE_URL", "PYTHONPATH")}
    ran = subprocess.run(
        [checkout.resolve() / ".venv" / "bin" / "python", "-c", ONE_ROUND, name, str(scale)],
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    figures: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return figures


def _report(rounds: dict[str, list[tuple[float, float]]]) -> int:
    """Print the medians, and the ratios with their spread: what two equal checkouts would show as well."""
    table = Table("what", "here", "there", "ratio", "lowest to highest", "")
    table.columns[0].no_wrap = True
    worse = 0
    for what, pairs in rounds.items():
        ratios = [there / here if what.endswith(" ms") else here / there for here, there in pairs]
        ratio = median(ratios)
        worse += ratio < LOWEST_RATIO
        here, there = (f"{median(side):,.2f}" for side in zip(*pairs, strict=True))
        spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
        table.add_row(what, here, there, f"{ratio:.3f}", spread, "worse" if ratio < LOWEST_RATIO else "")
    console.print(table)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
