"""Helper processes: run functions that take long away from the caller's event loop, each within a time limit.

The limit is of processor time: on a busy machine a call waits for a processor, and a call that is ended and begun again
would get no further.

Parsing templates, filling them in, checking a schema and computing due times is Python that holds the interpreter, so a
thread would still take turns with the event loop; a process does not, and can be killed. A call sends a function of a
module, its arguments and its result as pickles, over the pipes of a child that ends when its parent does.
"""

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from atlas.errors import AtlasError

# How a function is called: in this process, or in another.
Run = Callable[..., Awaitable[Any]]

# Processor time of a call, without what loads modules: far more than the bounds of any document allow.
CALL_SECONDS = 10.0
# However busy the machine is. Less than a transaction may be idle.
MAX_SECONDS = 40.0
# Requests go first on a machine with few processors.
NICENESS = 5
_SERVE = "from atlas.engine.helper_process import serve; serve()"


class HelperFailed(AtlasError):
    """A helper process did not return a result."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Checking {reason}, and nothing was changed.", remedy="Try again, or send less at a time.")


async def run_here(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function in this process."""
    return function(*arguments, **options)


class HelperPool:
    """Up to `size` helper processes, each started when it is first needed and again after it ended."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="atlas-helper")
        self._own = threading.local()

    async def run(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """The function's result, or the AtlasError that it raised; HelperFailed if it took too long."""
        call = pickle.dumps((CALL_SECONDS, function, arguments, options))
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._call, call)

    def _call(self, call: bytes) -> Any:
        """Runs in a thread, which waits for the process that belongs to it."""
        helper: _Helper | None = getattr(self._own, "helper", None)
        if helper is None or not helper.is_alive:
            helper = self._own.helper = _Helper()
        succeeded, result = helper.call(call)
        if not succeeded:
            raise result
        return result


class _Helper:
    """One helper process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C in a terminal is for the parent, whose end closes the pipe.
            start_new_session=True,
        )
        self._is_late = False

    @property
    def is_alive(self) -> bool:
        return not self._is_late and self._process.poll() is None

    def call(self, call: bytes) -> tuple[bool, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        timer = threading.Timer(MAX_SECONDS, self._expire)
        timer.daemon = True
        timer.start()
        try:
            stdin.write(call)
            stdin.flush()
            outcome: tuple[bool, Any] = pickle.load(stdout)
            return outcome
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self._process.kill()
            reason = "ended half-way"
            if self._process.wait() == -signal.SIGPROF:
                reason = f"took more than {CALL_SECONDS:.0f} s of processor time"
            elif self._is_late:
                reason = f"took more than {MAX_SECONDS:.0f} s"
            raise HelperFailed(reason) from error
        finally:
            timer.cancel()

    def _expire(self) -> None:
        self._is_late = True
        self._process.kill()


def serve() -> None:
    """Call what the parent sends, until it closes the pipe. Runs as a process of its own."""
    os.nice(NICENESS)
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a library prints must not mix with the results.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while True:
        try:
            seconds, function, arguments, options = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        # Its signal ends the process.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        outcome = _outcome(function, arguments, options)
        signal.setitimer(signal.ITIMER_PROF, 0)
        pickle.dump(outcome, results)
        results.flush()


def _outcome(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[bool, Any]:
    """Whether the function succeeded, and its result or error. Any other error ends the process, and is logged."""
    try:
        return True, function(*arguments, **options)
    except AtlasError as error:
        return False, error
