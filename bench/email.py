"""What a mail costs: draining EMAIL_SEND jobs into the outbox, beside draining jobs that do nothing.

Rounds alternate, so that a noisy neighbour disturbs both alike, on one embedded Postgres with its ordinary settings
(a commit is on disk). Time runs from the start of a worker to its end; the mails are real files, and their recipients
and subjects are committed to in the audit. Beside both, what the disk takes for the files by themselves.

    python -m bench.email [--jobs 1000] [--rounds 7]
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop

from atlas.actors import system
from atlas.cli.programs.long_running import relax_garbage_collection
from atlas.db.migrations import migrate
from atlas.db.pool import Pool, open_pool
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.outbox_files import list_mails, outbox_folder
from atlas.ids import new_id
from atlas.logs import configure_logs
from atlas.postgres.cluster import start_embedded
from atlas.settings import Settings
from atlas.workers.email import register_email
from atlas.workers.email.outbox import write_mail
from atlas.workers.worker import Worker, WorkerOptions

LIMIT_RATIO = 0.6
ACTOR = system("bench")


@job("bench.nothing")
async def nothing(input: dict[str, Any]) -> None:
    """Do nothing."""


async def run(pool: Pool, url: str, home: Path, *, jobs: int, rounds: int) -> dict[str, Any]:
    """Jobs a second each way, and how they compare."""
    pairs = []
    files = []
    for _ in range(rounds + 1):
        pairs.append((await _drain(pool, url, _nothings(jobs)), await _drain(pool, url, _mails(jobs))))
        files.append(_write_files(home, jobs))
    del pairs[0], files[0]  # the first round warms all up
    return {
        "jobs": jobs,
        "rounds": rounds,
        "nothing_per_second": round(statistics.median(plain for plain, _ in pairs)),
        "mails_per_second": round(statistics.median(mail for _, mail in pairs)),
        "files_alone_per_second": round(statistics.median(files)),
        "ratio": round(statistics.median(mail / plain for plain, mail in pairs), 3),
        "limit_ratio": LIMIT_RATIO,
    }


def _nothings(count: int) -> list[NewJob]:
    return [NewJob("bench.nothing", {}) for _ in range(count)]


def _mails(count: int) -> list[NewJob]:
    words = {"subject": "Your report", "text": "It is ready.\nSee you there."}
    return [NewJob("EMAIL_SEND", {**words, "to": f"Ada Lovelace <ada.{n}@example.com>"}) for n in range(count)]


def _write_files(home: Path, count: int) -> float:
    """Files a second, of the size of these mails, with no job around them."""
    folder = str(home / "files")
    started = time.perf_counter()
    for _ in range(count):
        write_mail(folder, "system", new_id(), b"x" * 420)
    return count / (time.perf_counter() - started)


async def _drain(pool: Pool, url: str, jobs: list[NewJob]) -> float:
    """Jobs a second, from the start of a worker to its end."""
    async with pool.acquire() as conn:
        await enqueue_many(conn, jobs, actor=ACTOR)
    worker = Worker(pool, url, WorkerOptions(job_types=[jobs[0].job_type], drain=True))
    started = time.perf_counter()
    await worker.run()
    passed = time.perf_counter() - started
    assert worker.finished == len(jobs), f"{worker.finished} of {len(jobs)} jobs ended"
    return len(jobs) / passed


async def _main(arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="atlas-bench-") as folder:
        home = Path(folder)
        server = await start_embedded(home)
        try:
            await migrate(server.url("postgres"))
            mailer = register_email(Settings(atlas_home=home, outbound_email_provider=("outbox",)))
            pool = await open_pool(server.url("postgres"))
            async with pool.acquire() as conn:
                await switch(conn, online=True, actor=ACTOR)
            relax_garbage_collection()  # as `atlas worker` does
            figures = await run(pool, server.url("postgres"), home, jobs=arguments.jobs, rounds=arguments.rounds)
            written = len(list_mails(outbox_folder(home), limit=10**9))
            assert written == arguments.jobs * (arguments.rounds + 1), f"{written} files"
            await pool.close()
            await mailer.close()
            return figures
        finally:
            server.release()
            await _until_stopped(home)


async def _until_stopped(home: Path) -> None:
    """The folder can go once the server has left it."""
    async with asyncio.timeout(30):
        while (home / "postgres" / "data" / "postmaster.pid").exists():
            await asyncio.sleep(0.05)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print one JSON document, and fail below the limit."""
    configure_logs("warning")
    parser = argparse.ArgumentParser(description="Mails through the outbox beside jobs that do nothing.")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(_main(parser.parse_args(argv)))
    print(json.dumps(figures, indent=2))
    return 0 if figures["ratio"] >= LIMIT_RATIO else 1


if __name__ == "__main__":
    raise SystemExit(main())
