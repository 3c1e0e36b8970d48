"""Runs cases from the command line.

python -m tests.faults points PROGRAM        the statements of a program, in their order
python -m tests.faults run [PROGRAM]… [--fault FAULT]… [--occurrences N]
python -m tests.faults run [PROGRAM]… --seed N [--most N]    each statement once, with a fault that the seed chooses
python -m tests.faults replay CASE           a case that was printed, again
python -m tests.faults several SEED          several faults of one program, chosen by the seed; a failure is shrunk
python -m tests.faults storm SEED            all programs and capabilities, and disasters that the seed chooses

The server is an embedded one, or that of DATABASE_URL; a storm has its own, of the embedded version or of --server.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from atlas.postgres import pg_ctl
from atlas.test_databases import TestDatabases
from tests.faults.points import FAULTS, read_case
from tests.faults.programs import PROGRAMS
from tests.faults.runner import Runner, Verdict
from tests.faults.selection import cases_of, one_fault_each, several_faults
from tests.faults.storm import run_storm


async def show_points(runner: Runner, chosen: argparse.Namespace) -> list[Verdict]:
    """Print the points of a program in the order in which it reached them."""
    counted = await runner.count(chosen.program)
    for point in counted.points:
        print(f"{point}  {counted.texts[point.statement][:120]}")
    print(f"{len(counted.points)} statements, {counted.commits} commits")
    show(counted)
    return [counted]


async def run_cases(runner: Runner, chosen: argparse.Namespace) -> list[Verdict]:
    """Strike every point of programs with every fault."""
    verdicts = []
    for name in chosen.programs or PROGRAMS:
        counted = await runner.count(name)
        show(counted)
        if chosen.seed is None:
            cases = cases_of(name, counted.points, faults=chosen.fault or FAULTS, occurrences=chosen.occurrences)
        else:
            samples = chosen.occurrences or runner.samples[name]
            cases = one_fault_each(name, counted.points, chosen.seed, chosen.most, samples=samples)
        verdicts += [counted, *await runner.run_all(cases, at_once=chosen.at_once, report=show)]
    return verdicts


def show(verdict: Verdict) -> None:
    """One line for each case that kept all laws, and what was broken in others."""
    print(verdict if verdict.broken else f"ok {verdict.case} {verdict.seconds:.1f} s", flush=True)


async def replay(runner: Runner, chosen: argparse.Namespace) -> list[Verdict]:
    """Run one case."""
    verdict = await runner.run(read_case(chosen.case))
    show(verdict)
    return [verdict]


async def run_several(runner: Runner, chosen: argparse.Namespace) -> list[Verdict]:
    """Run the case of a seed, and shrink it if it breaks something."""
    verdict = await runner.run(await several_faults(runner, chosen.seed))
    shortest = await runner.shrink(verdict) if verdict.broken else verdict
    show(shortest)
    return [shortest]


async def show_storm(folder: Path, chosen: argparse.Namespace) -> int:
    """Run the storm of a seed."""
    if chosen.server is not None:
        pg_ctl.BIN = chosen.server
    happened, broken = await run_storm(folder, chosen.seed, chosen.disasters)
    print(f"storm {chosen.seed}: {', '.join(happened.happened)}")
    for name, reason in happened.skipped.items():
        print(f"skipped {name}: {reason}")
    for law in broken:
        print(f"  broken: {law}")
    print(f"{happened.jobs:,} jobs, {len(happened.happened)} disasters, {len(broken)} broken laws")
    print(f"{happened.full} errors of a full disk in the server's log")
    return 1 if broken else 0


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Faults at every statement.")
    commands = parser.add_subparsers(required=True)

    def command(
        name: str, run: Callable[[Runner, argparse.Namespace], Awaitable[list[Verdict]]]
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=run.__doc__)
        added.set_defaults(run=run)
        return added

    command("points", show_points).add_argument("program", choices=PROGRAMS)
    cases = command("run", run_cases)
    cases.add_argument("programs", nargs="*", metavar="PROGRAM", help="all by default")
    cases.add_argument("--fault", action="append", choices=FAULTS)
    cases.add_argument(
        "--occurrences",
        type=int,
        help="how many executions of each statement to strike; all by default, and with --seed the first",
    )
    cases.add_argument("--seed", type=int, help="strike each statement once, with a fault that the seed chooses")
    cases.add_argument("--most", type=int, help="strike so many statements of each program, chosen by the seed")
    cases.add_argument("--at-once", type=int, default=4)
    command("replay", replay).add_argument("case")
    command("several", run_several).add_argument("seed", type=int)
    stormy = commands.add_parser("storm", help=show_storm.__doc__)
    stormy.set_defaults(run=None)
    stormy.add_argument("seed", type=int)
    stormy.add_argument("--disasters", type=int, default=10)
    stormy.add_argument("--server", type=Path, metavar="DIR", help="the programs of another Postgres")
    return parser.parse_args()


async def main() -> int:
    chosen = read_arguments()
    folder = Path(tempfile.mkdtemp(prefix="atlas-faults-"))
    if chosen.run is None:
        return await show_storm(folder, chosen)
    databases = TestDatabases(folder / "server", os.environ.get("DATABASE_URL"), compact=True)
    await databases.start()
    runner = Runner(databases, folder)
    try:
        verdicts = await chosen.run(runner, chosen)
    finally:
        runner.close()
        await asyncio.to_thread(databases.stop)
    broken = [verdict for verdict in verdicts if verdict.broken]
    if not broken:
        shutil.rmtree(folder, ignore_errors=True)
    struck = sum(len(verdict.struck) for verdict in verdicts)
    print(f"{len(verdicts)} runs, {struck} faults, {len(broken)} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
