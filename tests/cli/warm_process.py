"""Runs `atlas` commands in forks of a process that has loaded what all of them need.

Most of a command's time is spent importing. A fork skips that, and is seen from outside as any other process: it has its
own arguments, environment, folder, streams and exit status.

    python -m tests.cli.warm_process FD [MODULE]…     commands come through this socket, each with four open files
"""

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from atlas.api.local import INNER, MODULES
from atlas.db.prisma import load_client
from atlas.db.sql_functions import functions_hash
from atlas.source import SOURCE
from tests.support import ROOT

LONGEST = 2**20
# None of these registers a job type: a command knows the same types in a fork as in a process of its own.
LOADED = (
    *("main", "runtime", "connection.in_process", "doctor", "migrate", "workflow", "trigger"),
    *("steering.status", "steering.usage", "steering.insights", "steering.host"),
    *("jobs.explain", "jobs.enqueue", "jobs.jobs", "jobs.event", "jobs.definition"),
    *("access.tenant", "access.token"),
)
# The routes that commands call in their own process, and what checks inputs there.
ROUTES = sorted({name for names in (*MODULES.values(), *INNER.values()) for name in names})
INPUTS = ("atlas.workers.email", "atlas.workers.http_call")
# The classes of the typed client's tables, each in a file of its own.
TABLES = sorted(path.stem for kind in ("actions", "bases", "models") for path in SOURCE.glob(f"generated/{kind}_*.py"))


class WarmProcess:
    """The process, as the tests use it."""

    def __init__(self, env: dict[str, str], *modules: str) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.cli.warm_process", str(theirs.fileno()), *modules],
                pass_fds=[theirs.fileno()],
                cwd=ROOT,
                env=env,
            )

    def run(self, arguments: list[str], *, cwd: Path, env: dict[str, str], stdin: bytes) -> tuple[int, bytes, bytes]:
        """Run one command to its end: exit status, stdout, stderr."""
        request = json.dumps({"arguments": arguments, "cwd": str(cwd), "env": env}).encode()
        status, status_end = os.pipe()
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            streams = [given.fileno(), out.fileno(), err.fileno(), status_end]
            socket.send_fds(self._socket, [request], streams)
            os.close(status_end)
            with open(status, "rb") as end:
                code = int(end.read())
            return code, *(stream.seek(0) or stream.read() for stream in (out, err))

    def fileno(self) -> int:
        """The socket, for processes that send commands themselves."""
        return self._socket.fileno()

    def close(self) -> None:
        """End it; commands under way go on."""
        self._socket.close()
        self._process.wait()


def serve(requests: socket.socket, *modules: str) -> None:
    """Fork for each command until the tests are over."""
    commands = [f"atlas.cli.{name}" for name in LOADED]
    routes = [f"atlas.api.resources.{name}" for name in ROUTES]
    for name in ("typer.rich_utils", *commands, *routes, *INPUTS, *modules):
        import_module(name)
    load_client()
    for name in TABLES:
        import_module(f"atlas.generated.{name}")
    # Every command compares it with the database's.
    functions_hash()
    # What is loaded is no garbage, and looking for some would copy its pages into every fork.
    gc.freeze()
    woken, by_signal = socket.socketpair()
    by_signal.setblocking(False)
    signal.set_wakeup_fd(by_signal.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # By the id of a command's process, where its exit status is written.
    statuses: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            woken.recv(LONGEST)
            report_ends(statuses)
        if requests in ready:
            request, files, _, _ = socket.recv_fds(requests, LONGEST, 4)
            if not request:
                return
            child = os.fork()
            if child == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for file in (requests, woken, by_signal):
                    file.close()
                for status in (files[3], *statuses.values()):
                    os.close(status)
                run_command(json.loads(request), files[:3])
            statuses[child] = files[3]
            for stream in files[:3]:
                os.close(stream)


def report_ends(statuses: dict[int, int]) -> None:
    """Write the exit status of every command that has ended, however it did: its caller waits for that."""
    while statuses:
        child, ended = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        status = statuses.pop(child)
        # The caller may have gone.
        with suppress(BrokenPipeError):
            os.write(status, str(os.waitstatus_to_exitcode(ended)).encode())
        os.close(status)


def run_command(request: dict[str, object], streams: list[int]) -> None:
    """As the interpreter would: set the process up, run, flush, exit."""
    for stream, number in zip(streams, range(3), strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    if "pid_file" in request:
        Path(str(request["pid_file"])).write_text(str(os.getpid()))
    sys.argv = ["atlas", *request["arguments"]]  # type: ignore[misc]
    module, _, name = str(request.get("main", "atlas.cli.main:main")).partition(":")
    main = getattr(import_module(module), name)
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
        sys.stdout.flush()
    finally:
        os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), *sys.argv[2:])
