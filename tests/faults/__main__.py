"""The command `atlas-faults`, which `make setup` writes to `.venv/bin`."""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from pathlib import Path

from atlas.postgres import pg_ctl
from atlas.test_databases import TestDatabases
from tests.faults.points import FAULTS, Case, read_case
from tests.faults.programs import PROGRAMS
from tests.faults.runner import Runner, Verdict
from tests.faults.selection import cases_of, one_fault_each, several_faults
from tests.faults.storm import run_storm

COMMANDS = """
atlas-faults points worker                      list the statements of a program, in order
atlas-faults run enqueue --fault kill_after     inject this fault at every statement
atlas-faults run enqueue --seed 1               inject one fault at every statement; the seed chooses which
atlas-faults replay worker:drop@ee9311.2        repeat one case
atlas-faults several 7                          several faults in one program, chosen by the seed 7
atlas-faults storm 7                            all programs together, with disasters that the seed 7 chooses
atlas-faults replay 7                           repeat the storm of the seed 7
"""


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
    """Repeat a case that was printed, or the storm of a seed."""
    verdict = await runner.run(chosen.target)
    show(verdict)
    for strike in verdict.missed:
        print(f"not reached: {strike}. `atlas-faults points {verdict.case.program}` lists the statements")
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
    happened, broken = await run_storm(folder, chosen.target, chosen.disasters)
    print(f"storm {chosen.target}: {', '.join(happened.happened)}")
    for name, reason in happened.skipped.items():
        print(f"skipped {name}: {reason}")
    if broken:
        server = f" --server {chosen.server}" if chosen.server else ""
        print(f"atlas-faults replay {chosen.target} --disasters {chosen.disasters}{server}")
    for law in broken:
        print(f"  broken: {law}")
    print(f"{happened.jobs:,} jobs, {len(happened.happened)} disasters, {len(broken)} broken laws")
    print(f"{happened.full} errors of a full disk in the server's log")
    return 1 if broken else 0


def read_program(name: str) -> str:
    """The name of a program."""
    if name not in PROGRAMS:
        near = " or ".join(get_close_matches(name, PROGRAMS))
        remedy = f"did you mean {near}?" if near else "`atlas-faults --help` lists the programs"
        raise argparse.ArgumentTypeError(f"there is no program {name!r}; {remedy}")
    return name


def read_target(text: str) -> Case | int:
    """A case, or the seed of a storm."""
    if text.isdecimal():
        return int(text)
    try:
        case = read_case(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    read_program(case.program)
    return case


def describe() -> str:
    """The end of the help: examples, faults and programs."""
    faults = "\n".join(f"{name:12} {text}" for name, text in FAULTS.items())
    programs = textwrap.fill(", ".join(PROGRAMS), 100, break_on_hyphens=False)
    parts = {"examples": COMMANDS.strip(), "faults": faults, "programs": programs}
    server = "The server is an embedded one, or that of DATABASE_URL. A storm has its own."
    return "\n\n".join([*(f"{name}:\n{textwrap.indent(text, '  ')}" for name, text in parts.items()), server])


def read_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="atlas-faults",
        description="Run programs of Atlas with a fault at any of their statements, and judge what became of the work.",
        epilog=describe(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[Runner, argparse.Namespace], Awaitable[list[Verdict]]] | None, text: str | None
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(run=run, target=None)
        return added

    command("points", show_points, show_points.__doc__).add_argument("program", metavar="PROGRAM", type=read_program)
    cases = command("run", run_cases, run_cases.__doc__)
    cases.add_argument("programs", nargs="*", metavar="PROGRAM", type=read_program, help="all by default")
    cases.add_argument("--fault", action="append", choices=FAULTS)
    cases.add_argument(
        "--occurrences",
        type=int,
        metavar="N",
        help="how many executions of each statement to strike; all by default, and with --seed the first",
    )
    cases.add_argument("--seed", type=int, help="strike each statement once, with a fault that the seed chooses")
    cases.add_argument(
        "--most", type=int, metavar="N", help="strike at most N statements of each program, chosen by the seed"
    )
    cases.add_argument("--at-once", type=int, default=4, metavar="N", help="how many cases run at a time; default 4")
    replayed = command("replay", replay, replay.__doc__)
    replayed.add_argument(
        "target", metavar="CASE|SEED", type=read_target, help="such as worker:drop@ee9311.2, or the seed of a storm"
    )
    command("several", run_several, run_several.__doc__).add_argument("seed", type=int, metavar="SEED")
    stormy = command("storm", None, show_storm.__doc__)
    stormy.add_argument("target", type=int, metavar="SEED")
    for parser_of_storms in (replayed, stormy):
        parser_of_storms.add_argument("--disasters", type=int, default=10, metavar="N", help="of a storm; default 10")
        parser_of_storms.add_argument(
            "--server", type=Path, metavar="DIR", help="of a storm: the programs of another Postgres"
        )
    return parser.parse_args(arguments)


async def main() -> int:
    chosen = read_arguments()
    folder = Path(tempfile.mkdtemp(prefix="atlas-faults-"))
    if isinstance(chosen.target, int):
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
    return 1 if broken or (chosen.run is replay and verdicts[0].missed) else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
