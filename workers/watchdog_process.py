"""The watchdog: a small process beside a worker that ends it when its event loop does not turn any more.

Nothing inside the worker can do that: code in C that keeps the interpreter's lock, such as a regular expression, stops
every thread. The worker writes a beat to the watchdog's standard input for as long as its event loop turns. Without
one, the watchdog asks for the stack by a signal, has a third process report it to the database before the lease is
over, and kills the worker when its lease has been over for as long again. What runs the worker starts it again.

Time does not count in which the worker was stopped (SIGSTOP) or had next to no share of a processor, or in which the
machine slept. The watchdog uses only the standard library: what it needs beyond is loaded by the process that reports.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

INPUT = 0
CHUNK = 64 * 1024
# Leases after which the watchdog asks for the stack, twice; reports it, before the lease can be over; ends the worker.
ASK_AFTER = (1 / 6, 1 / 4)
REPORT_AFTER = 1 / 3
END_AFTER = 2.0
# How often it looks, in leases.
LOOKS = 1 / 24
# Less than this share of a processor, or of sleep in a call, between two looks: the machine is at fault.
STARVED = 0.1
BEAT, JOB = b"=", b"{"
_REPORT = "from atlas.workers.stall_report import main; main()"


def main() -> None:
    """Watch the parent until it ends."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    received = b""
    while b"\n" not in received:
        chunk = os.read(INPUT, CHUNK)
        if not chunk:
            return
        received += chunk
    order, _, rest = received.partition(b"\n")
    Watchdog(json.loads(order)).watch(rest)


class Watchdog:
    """Watches one worker."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._pid: int = order["pid"]
        self._lease: float = order["lease"]
        self._signal: int | None = order["signal"]
        self._url: str = order["url"]
        self._worker_id = ""
        self._line = b""
        self._reading = self._read_times()
        self._forget()

    def watch(self, received: bytes) -> None:
        """Look again and again, until the worker has ended."""
        self._take(received)
        while os.getppid() == self._pid:
            if select.select([INPUT], [], [], self._lease * LOOKS)[0]:
                chunk = os.read(INPUT, CHUNK)
                if not chunk:
                    return
                self._take(chunk)
            self._count()
            self._act()

    def _forget(self) -> None:
        """The event loop has turned: nothing that was seen before matters."""
        self._blocked = 0.0
        self._asked = 0
        self._has_reported = False
        self._jobs: list[str | None] = []
        self._stack: list[str] = []

    def _take(self, chunk: bytes) -> None:
        *lines, self._line = (self._line + chunk).split(b"\n")
        for line in lines:
            if line.startswith(BEAT):
                self._worker_id = line[1:].decode()
                self._forget()
            elif line.startswith(JOB):
                self._jobs.append(json.loads(line)["job_id"])
            else:
                self._stack.append(line.decode("utf-8", "replace"))

    def _count(self) -> None:
        """Add the time since the last look, unless the worker could not have turned in it."""
        now = self._read_times()
        at, waited, is_stopped = now
        # At most two looks: this process may have slept itself.
        passed = min(at - self._reading[0], 2 * self._lease * LOOKS)
        could_run = passed - (waited - self._reading[1])
        if not is_stopped and could_run >= STARVED * passed:
            self._blocked += passed
        self._reading = now

    def _act(self) -> None:
        if not self._worker_id:
            return
        if self._asked < len(ASK_AFTER) and self._blocked >= ASK_AFTER[self._asked] * self._lease:
            self._asked += 1
            self._stack.clear()
            if self._signal is not None:
                os.kill(self._pid, self._signal)
        elif self._blocked >= REPORT_AFTER * self._lease and not self._has_reported:
            self._has_reported = True
            self._report()
        elif self._blocked >= END_AFTER * self._lease:
            self._end()

    def _report(self) -> None:
        """Have the stall recorded. The job is known if both questions found the same one."""
        jobs = set(self._jobs)
        report = {
            "url": self._url,
            "worker_id": self._worker_id,
            "seconds": self._blocked,
            "within": self._lease,
            "job_id": jobs.pop() if len(jobs) == 1 and len(self._jobs) >= len(ASK_AFTER) else None,
            "stack": "\n".join(self._stack) or None,
        }
        with contextlib.suppress(OSError):
            reporter = subprocess.Popen([sys.executable, "-P", "-c", _REPORT], stdin=subprocess.PIPE)
            assert reporter.stdin is not None
            with reporter.stdin:
                reporter.stdin.write(json.dumps(report).encode())

    def _end(self) -> None:
        facts = {
            "event": "the event loop of the worker does not turn, and its lease is over: its process is ended",
            "level": "error",
            "worker_id": self._worker_id,
            "seconds": round(self._blocked, 1),
        }
        with contextlib.suppress(OSError):
            os.write(2, json.dumps(facts).encode() + b"\n")
        if os.getppid() == self._pid:
            os.kill(self._pid, signal.SIGKILL)

    def _read_times(self) -> tuple[float, float, bool]:
        """The time; for how long the worker's main thread has waited for a processor; whether the worker is stopped.

        Only Linux says so; elsewhere the clock alone decides.
        """
        now = time.monotonic()
        try:
            with open(f"/proc/{self._pid}/task/{self._pid}/schedstat", "rb") as file:
                waited = int(file.read().split()[1])
            with open(f"/proc/{self._pid}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
        except (OSError, ValueError):
            return now, 0.0, False
        return now, waited / 1e9, state in (b"T", b"t")


if __name__ == "__main__":
    main()
