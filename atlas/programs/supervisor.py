"""The supervisor: a small process between one program and the worker or agent that runs it.

The worker writes an order to its standard input and keeps that pipe open. `stop`, or the end of the pipe, ends the
program, so that nothing outlives a worker that was killed. The supervisor reads all output of the program, keeps a
bounded part of it, and reports progress and the result, one JSON document a line, on its standard output. It is a
process of its own, so that neither a flood of output nor a fork bomb reaches the worker. It uses only the standard
library.
"""

import base64
import contextlib
import json
import math
import os
import select
import shutil
import signal
import time
from typing import Any

from atlas.programs.capture import Capture, Directives
from atlas.programs.sandbox import adopt_orphans, become_program, end_all, lease_uid, reap

CONTROL, REPORT = 0, 1
CHUNK = 64 * 1024
# The least time between two reports of progress.
PROGRESS_SECONDS = 0.1
MAX_MESSAGE_LENGTH = 500


def main() -> None:
    """Carry out one order."""
    # Only the worker's pipe stops it, not a signal that was meant for the worker.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    text, _, more = _read_order().partition(b"\n")
    if text:
        supervisor = Supervisor(json.loads(text))
        # Something after the order is a request to stop.
        supervisor.decline() if more else supervisor.run()


class Supervisor:
    """One program, from its start until all its processes have ended."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._captures = {"stdout": Capture(), "stderr": Capture()}
        self._directives = Directives()
        self._pipes: dict[int, str] = {}
        self._pid = 0
        self._uid: int | None = None
        self._status: int | None = None
        self._cpu = 0.0
        self._timed_out = False
        self._kill_at: float | None = None
        self._progress: list[Any] | None = None
        self._progress_at = 0.0
        self._output: str | None = None

    def decline(self) -> None:
        """Report a program as stopped, without starting it."""
        self._status = signal.SIGTERM
        _report({"ended": self._result()})

    def run(self) -> None:
        """Start the program, watch it until it ends, kill what it left behind, and report the result."""
        folder = self._order["folder"]
        try:
            self._start(folder)
        except OSError as error:
            _report({"failed": str(error.strerror or error)})
        else:
            _report({"started": self._pid, "uid": self._uid})
            self._watch()
            self._end()
            _report({"ended": self._result()})
        finally:
            _remove(folder)

    def _start(self, folder: str) -> None:
        adopt_orphans()
        self._wake = _wake_on_child()
        leased = lease_uid() if self._order["own_user"] else None
        self._uid = None if leased is None else leased[0]
        os.mkdir(folder, 0o700)
        if self._uid is not None:
            os.chown(folder, self._uid, self._uid)
        ends = {name: os.pipe() for name in self._captures}
        failure, failing = os.pipe()
        supervisor = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._become_program(folder, ends["stdout"][1], ends["stderr"][1], failing, supervisor)
        for name, (reading, writing) in ends.items():
            os.close(writing)
            os.set_blocking(reading, False)
            self._pipes[reading] = name
        os.close(failing)
        self._deadline = time.monotonic() + self._order["time_limit"]
        # A start that succeeds closes the pipe. One that fails writes the reason to it.
        reason = b"".join(iter(lambda: os.read(failure, CHUNK), b""))
        os.close(failure)
        if reason:
            os.waitpid(self._pid, 0)
            raise OSError(reason.decode())

    def _become_program(self, folder: str, out: int, err: int, failing: int, supervisor: int) -> None:
        order = self._order
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            program = order["argv"], order["env"], folder, order["limits"]
            become_program(*program, uid=self._uid, supervisor=supervisor)
        except (OSError, ValueError) as error:
            os.write(failing, str(getattr(error, "strerror", None) or error).encode())
        finally:
            os._exit(127)

    def _watch(self) -> None:
        """Wait until the program has ended, or has not within its grace time."""
        control = True
        while self._status is None and (self._kill_at is None or time.monotonic() < self._kill_at):
            ready = self._wait([*self._pipes, self._wake, *([CONTROL] if control else [])])
            if CONTROL in ready:
                control = bool(os.read(CONTROL, CHUNK))
                self._ask_to_stop()
            if self._wake in ready:
                os.read(self._wake, CHUNK)
                self._reap(reap())
            for pipe in [pipe for pipe in self._pipes if pipe in ready]:
                self._read(pipe)
            if time.monotonic() >= self._deadline and self._kill_at is None:
                self._timed_out = True
                self._ask_to_stop()
            self._report_progress()

    def _wait(self, pipes: list[int]) -> list[int]:
        now = time.monotonic()
        times = [self._deadline if self._kill_at is None else self._kill_at]
        if self._progress is not None:
            times.append(self._progress_at + PROGRESS_SECONDS)
        ready, _, _ = select.select(pipes, [], [], max(0.0, min(times) - now))
        return ready

    def _ask_to_stop(self) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._order["grace"]
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGTERM)

    def _end(self) -> None:
        """Kill all processes of the program, and read what is left in its pipes."""
        self._reap(end_all(self._pid, self._uid))
        for pipe in list(self._pipes):
            while pipe in self._pipes and self._read(pipe):
                pass
        for line in self._directives.end():
            self._handle(line)
        self._progress_at = 0.0
        self._report_progress()

    def _reap(self, ended: Any) -> None:
        for pid, status, used in ended:
            self._cpu += used.ru_utime + used.ru_stime
            if pid == self._pid:
                self._status = status

    def _read(self, pipe: int) -> bool:
        """Read what a pipe holds now. Returns False if that is nothing."""
        try:
            chunk = os.read(pipe, CHUNK)
        except BlockingIOError:
            return False
        name = self._pipes[pipe]
        if not chunk:
            os.close(pipe)
            del self._pipes[pipe]
            return False
        self._captures[name].feed(chunk)
        if name == "stdout":
            for line in self._directives.feed(chunk):
                self._handle(line)
        return True

    def _handle(self, line: bytes) -> None:
        word, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
        if word == "::output":
            self._output = rest
        elif word == "::progress":
            percent, _, message = rest.strip().partition(" ")
            with contextlib.suppress(ValueError):
                if math.isfinite(number := float(percent)):
                    self._progress = [number, message.strip()[:MAX_MESSAGE_LENGTH] or None]

    def _report_progress(self) -> None:
        now = time.monotonic()
        if self._progress is None or now < self._progress_at + PROGRESS_SECONDS:
            return
        # A worker that does not read must not block the supervisor, which enforces the time limit. A pipe that is
        # writable takes at least a page, and a report of progress is smaller.
        if select.select([], [REPORT], [], 0)[1]:
            _report({"progress": self._progress})
        self._progress, self._progress_at = None, now

    def _result(self) -> dict[str, Any]:
        streams = {name: _encoded(capture) for name, capture in self._captures.items()}
        return {
            "exit_code": None if self._status is None else os.waitstatus_to_exitcode(self._status),
            "timed_out": self._timed_out,
            "cpu_ms": round(self._cpu * 1000),
            "output": self._output,
            "overlong": self._directives.overlong,
            **streams,
        }


def _encoded(capture: Capture) -> dict[str, Any]:
    head, tail = (base64.b64encode(part).decode() for part in (capture.head, capture.tail))
    return {"head": head, "tail": tail, "total": capture.total}


def _read_order() -> bytes:
    text = b""
    while b"\n" not in text:
        piece = os.read(CONTROL, CHUNK)
        if not piece:
            return b""
        text += piece
    return text


def _report(document: dict[str, Any]) -> None:
    text = json.dumps(document, ensure_ascii=False).encode() + b"\n"
    with contextlib.suppress(BrokenPipeError):
        while text:
            text = text[os.write(REPORT, text) :]


def _wake_on_child() -> int:
    """A pipe that becomes readable when a child ends."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reading


def _remove(folder: str) -> None:
    """Remove the program's folder, including what the program made unreadable. Root can read it anyway."""
    shutil.rmtree(folder, ignore_errors=True)
    if os.geteuid() != 0 and os.path.exists(folder):
        for here, names, _ in os.walk(folder):
            for path in (f"{here}/{name}" for name in names if not os.path.islink(f"{here}/{name}")):
                os.chmod(path, 0o700)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
