"""What a held xmin horizon does to the queue: each load without a holder first, then beside it, on one database.

`python -m bench.horizon` runs all rows on a server of its own; `--only ROW` one of them, `--seconds` and `--rate` make
it short. Prints windows of 15 s, then each criterion with the ratio to the same load without a holder. Exits with 1 if
one fails.
"""

import argparse
import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from atlas.logs import configure_logs
from atlas.postgres.cluster import EmbeddedPostgres, start_embedded
from atlas.postgres.pg_ctl import server_pid
from bench.fairness import add_tenant
from bench.horizon import holders
from bench.horizon.holders import Holder
from bench.horizon.measure import LoadWindow, Measured, Measurement, Programs
from bench.horizon.verdict import judge
from bench.jobs.ground import ground
from bench.peers.databases import own_database
from bench.peers.measurement import load as load_peer
from bench.peers.peer import NotMeasured, Peer

# What holds the horizon here would be ended by the settings of the embedded server, or not be possible.
SETTINGS = {
    "idle_in_transaction_session_timeout": "0",
    "max_prepared_transactions": "5",
    "wal_level": "logical",
    "max_wal_size": "16GB",
}
LONG_SECONDS = 3600
# The rows that peers run too.
BESIDE_PEERS = ("1500", "4000")
PEERS = ("graphile-worker", "pg-boss", "pgqueuer", "awa")
console = Console()


@dataclass(frozen=True, slots=True)
class HorizonRow:
    """A load and a holder."""

    name: str
    rate: float
    seconds: float
    holder: Holder
    workload: str = "plain"
    tenants: int = 1
    # Whether `--long` makes it an hour.
    may_be_long: bool = False


ROWS = [
    HorizonRow("1500", 1500, 600, holders.idle_transaction, may_be_long=True),
    HorizonRow("4000", 4000, 600, holders.idle_transaction, may_be_long=True),
    HorizonRow("1500-tenants", 1500, 600, holders.idle_transaction, tenants=50, may_be_long=True),
    HorizonRow("4000-tenants", 4000, 600, holders.idle_transaction, tenants=50, may_be_long=True),
    HorizonRow("backup", 1500, 180, holders.backups),
    HorizonRow("prepared", 1500, 180, holders.prepared_transaction),
    HorizonRow("slot", 1500, 180, holders.abandoned_slot),
    HorizonRow("analytics", 1500, 180, holders.analytics),
    HorizonRow("standby", 1500, 180, holders.standby),
    HorizonRow("priorities", 1500, 180, holders.idle_transaction, workload="priorities"),
    HorizonRow("retries", 1500, 180, holders.idle_transaction, workload="retries"),
    HorizonRow("throttled", 1500, 180, holders.idle_transaction, workload="throttled"),
    HorizonRow("workflows", 150, 180, holders.idle_transaction, workload="workflows"),
]


async def main(options: argparse.Namespace) -> bool:
    """Run the chosen rows. True if all criteria hold."""
    rows = [row for row in ROWS if not options.only or row.name in options.only]
    passed = True
    with tempfile.TemporaryDirectory() as home:
        server = await start_embedded(Path(home), settings=SETTINGS)
        try:
            for row in rows:
                measured = await measure(server, row, options)
                passed = show_verdict(row.name, measured) and passed
                peers = () if options.peers is None else options.peers or PEERS
                for name in peers if row.name in BESIDE_PEERS else ():
                    await show_peer(server, name, row, options)
        finally:
            server.release()
    return passed


async def show_peer(server: EmbeddedPostgres, name: str, row: HorizonRow, options: argparse.Namespace) -> None:
    """The same load and holder on a peer, or why it cannot be measured."""
    try:
        show_verdict(f"{name}, {row.name}", await measure_peer(server, load_peer(name, None), row, options))
    except NotMeasured as reason:
        print(f"\n{name}: {reason}")


async def measure_peer(server: EmbeddedPostgres, peer: Peer, row: HorizonRow, options: argparse.Namespace) -> Measured:
    """The same load and holder on a peer."""
    seconds, rate = options.seconds or row.seconds, options.rate or row.rate
    holder = holders.no_holder if options.unheld else row.holder
    async with own_database(server.url("postgres"), peer.name) as url:
        await peer.prepare(url)
        title = f"{peer.name} {peer.version}, {peer.settings}"
        print(f"\n{title}: {rate:,.0f} jobs/s for {seconds:,.0f} s. {holder.__doc__}\n{HEAD}")
        program = ["-m", "bench.horizon.peer", peer.name, url]
        programs = Programs([*program, "work"], lambda rate, seconds: [*program, "offer", str(rate), str(seconds)])
        measurement = Measurement(url, server_pid(server.folder / "data"), programs, show_window)
        return await measurement.run(holder, rate, before=options.before, seconds=seconds)


async def measure(server: EmbeddedPostgres, row: HorizonRow, options: argparse.Namespace) -> Measured:
    """One row, on a database of its own."""
    seconds = options.seconds or (LONG_SECONDS if options.long and row.may_be_long else row.seconds)
    rate = options.rate or row.rate
    holder = holders.no_holder if options.unheld else row.holder
    tenants = "1 tenant" if row.tenants == 1 else f"{row.tenants} tenants"
    print(f"\n{row.name}: {rate:,.0f} jobs/s of {tenants} for {seconds:,.0f} s. {holder.__doc__}\n{HEAD}")
    async with ground(server.url("postgres"), "horizon") as (pool, url):
        for number in range(row.tenants - 1):
            await add_tenant(pool, f"t{number}")
        programs = Programs(
            ["-m", "bench.horizon.worker", url, row.workload],
            lambda rate, seconds: ["-m", "bench.horizon.load", url, row.workload, str(rate), str(seconds)],
        )
        measurement = Measurement(url, server_pid(server.folder / "data"), programs, show_window)
        return await measurement.run(holder, rate, before=options.before, seconds=seconds)


HEAD = "phase     s  offered/s  done/s   p50 ms    p99 ms  backlog  worker ms/job  server ms/job  dead rows  worker MB"


def show_window(phase: str, ended: float, window: LoadWindow) -> None:
    """One line."""
    per_second = (window.offered / window.seconds, window.done / window.seconds)
    worker, server = (1000 * cpu / max(window.done, 1) for cpu in (window.worker_cpu, window.server_cpu))
    print(
        f"{phase:6} {ended:4.0f}  {per_second[0]:9,.0f} {per_second[1]:7,.0f} {_ms(window.p50)} {_ms(window.p99, 9)}"
        f"  {window.backlog:7,} {worker:14.3f} {server:14.3f} {window.dead_rows:10,} {window.worker_mb:10.0f}",
        flush=True,
    )


def show_verdict(name: str, measured: Measured) -> bool:
    """The criteria of a row. True if all hold."""
    table = Table(name, "value", "bound", "")
    criteria = list(judge(measured))
    for criterion in criteria:
        word = "pass" if criterion.passed else "[red]FAIL[/]"
        table.add_row(criterion.name, f"{criterion.value:.2f}", criterion.bound, word)
    console.print(table)
    return all(criterion.passed for criterion in criteria)


def _ms(value: float | None, width: int = 8) -> str:
    return f"{'–' if value is None else f'{value:,.1f}':>{width}}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.horizon", description=__doc__)
    names = [row.name for row in ROWS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="ROW", help=f"rows to run, of {', '.join(names)}")
    parser.add_argument("--seconds", type=float, help="how long the horizon is held, in place of each row's own time")
    parser.add_argument("--rate", type=float, help="jobs offered each second, in place of each row's own rate")
    parser.add_argument("--before", type=float, default=60, help="seconds without a holder, measured first")
    parser.add_argument("--long", action="store_true", help="an hour for the rows beside an idle transaction")
    beside = f"also measure these on the first two rows, of {', '.join(PEERS)}; without a name all"
    parser.add_argument("--peers", nargs="*", choices=PEERS, metavar="PEER", help=beside)
    parser.add_argument("--unheld", action="store_true", help="hold nothing: the noise of this machine")
    configure_logs("error")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        raise SystemExit(0 if runner.run(main(parser.parse_args())) else 1)
