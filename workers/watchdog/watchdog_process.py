"""The watchdog: a small process beside a worker that ends it when its event loop does not turn any more.

Nothing inside the worker can do that: code in C that keeps the interpreter's lock, such as a regular expression, stops
every thread. The worker writes a beat to the watchdog's standard input for as long as its event loop turns. Without
one, the watchdog asks for the stack by a signal, has a third process report it to the database before the lease is
over, and kills the worker when its lease has been over for as long again. What runs the worker starts it again.

The job is the one whose code the event loop runs. Where a plain function keeps the interpreter's lock in a thread, the
job is that of the thread which has the processor: `thread_table.py` is read for that.

Time does not count in which the worker was stopped (SIGSTOP) or had next to no share of a processor, or in which the
machine slept. The watchdog uses only the standard library: what it needs beyond is loaded by the process that reports.
"""

import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time
from typing import Any, NamedTuple
from uuid import UUID

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
# What a thread writes in `thread_table.py`: its number in the system and in Python, and its job.
THREAD = struct.Struct("<QQ16s")
_REPORT = "from atlas.workers.watchdog.stall_report import main; main()"


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


class BusyThread(NamedTuple):
    """A thread that runs a plain function, and keeps the processor."""

    number: int
    job_id: str


class Scheduled(NamedTuple):
    """For how many seconds a thread has had a processor, and has waited for one."""

    ran: float
    waited: float


class Times(NamedTuple):
    """The time; whether the worker is stopped; how its event loop's thread and those of plain functions did."""

    at: float
    is_stopped: bool
    threads: dict[int, Scheduled]


class Watchdog:
    """Watches one worker."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._pid: int = order["pid"]
        self._lease: float = order["lease"]
        self._signal: int | None = order["signal"]
        self._url: str = order["url"]
        self._threads: int = order["threads"]
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
        self._busy: list[BusyThread | None] = []
        # For how long each thread had run when the event loop began not to turn.
        self._ran: dict[int, float] = {}

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
        # At most two looks: this process may have slept itself.
        passed = min(now.at - self._reading.at, 2 * self._lease * LOOKS)
        if not now.is_stopped and not was_starved(self._pid, self._reading, now, passed):
            self._blocked += passed
        self._reading = now
        if not self._ran:
            self._ran = {thread: times.ran for thread, times in now.threads.items()}

    def _act(self) -> None:
        if not self._worker_id:
            return
        if self._asked < len(ASK_AFTER) and self._blocked >= ASK_AFTER[self._asked] * self._lease:
            self._asked += 1
            self._busy.append(self._find_busy())
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
        busy = self._busy[-1] if len(set(self._busy)) == 1 else None
        jobs = self._jobs or [None if thread is None else thread.job_id for thread in self._busy]
        report = {
            "url": self._url,
            "worker_id": self._worker_id,
            "seconds": self._blocked,
            "within": self._lease,
            "job_id": jobs[0] if len(set(jobs)) == 1 and len(jobs) >= len(ASK_AFTER) else None,
            "stack": self._stack_of(None if self._jobs else busy),
        }
        with contextlib.suppress(OSError):
            reporter = subprocess.Popen([sys.executable, "-P", "-c", _REPORT], stdin=subprocess.PIPE)
            assert reporter.stdin is not None
            with reporter.stdin:
                reporter.stdin.write(json.dumps(report).encode())

    def _stack_of(self, thread: BusyThread | None) -> str | None:
        """The stack of this thread, or of the one that received the signal: that of the event loop."""
        title = "Current thread " if thread is None else f"Thread {thread.number:#018x} "
        begins = [place for place, line in enumerate(self._stack) if line.startswith(title)]
        if not begins:
            return "\n".join(self._stack) or None
        stack = self._stack[begins[0] :]
        ends = [place for place, line in enumerate(stack) if place and not line.startswith(" ")]
        return "\n".join(stack[: ends[0]] if ends else stack)

    def _find_busy(self) -> BusyThread | None:
        """The thread of a plain function that has run the longest since then, and longer than the event loop's."""
        ran = {thread: times.ran - self._ran.get(thread, 0.0) for thread, times in self._reading.threads.items()}
        busiest = max(ran, key=lambda thread: ran[thread], default=self._pid)
        if busiest == self._pid:
            return None
        number, job = self._read_threads().get(busiest, (0, b""))
        if not job:
            return None
        return BusyThread(number, str(UUID(bytes=job)))

    def _read_threads(self) -> dict[int, tuple[int, bytes]]:
        """The threads that run plain functions: number in Python and job, by the number in the system."""
        with contextlib.suppress(OSError):
            entries = os.pread(self._threads, os.fstat(self._threads).st_size, 0)
            return {thread: (number, job) for thread, number, job in THREAD.iter_unpack(entries) if any(job)}
        return {}

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
        # A killed process may take a while to end: nothing is left to do or to log.
        self._worker_id = ""

    def _read_times(self) -> Times:
        """How it is now. Only Linux says how threads are scheduled; elsewhere the clock alone decides."""
        is_stopped, threads = False, {}
        with contextlib.suppress(OSError, ValueError):
            with open(f"/proc/{self._pid}/stat", "rb") as file:
                is_stopped = file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
            for thread in (self._pid, *self._read_threads()):
                # A thread may end meanwhile.
                with contextlib.suppress(OSError), open(f"/proc/{self._pid}/task/{thread}/schedstat", "rb") as file:
                    ran, waited, _ = file.read().split()
                    threads[thread] = Scheduled(int(ran) / 1e9, int(waited) / 1e9)
        return Times(time.monotonic(), is_stopped, threads)


def was_starved(pid: int, before: Times, now: Times, passed: float) -> bool:
    """Whether the machine kept the worker from turning: it had next to no share of a processor in this time.

    Its event loop waited for one; or a plain function did, which may keep the interpreter's lock, and none got one.
    """
    spans = {
        thread: Scheduled(times.ran - before.threads[thread].ran, times.waited - before.threads[thread].waited)
        for thread, times in now.threads.items()
        if thread in before.threads
    }
    waits = [thread for thread, span in spans.items() if passed - span.waited < STARVED * passed]
    return pid in waits or (bool(waits) and sum(span.ran for span in spans.values()) < STARVED * passed)


if __name__ == "__main__":
    main()
