"""Programs as forks of a warm process, which a case can kill and freeze."""

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

from tests.cli.warm_process import WarmProcess

# What programs need beside the commands; none of these registers a job type.
MODULES = ("atlas.cli.programs.worker", "atlas.cli.programs.scheduler", "tests.faults.steps", "tests.faults.callers")


class ForkedProgram:
    """One process of a program under faults."""

    def __init__(self, folder: Path, number: int, status: int) -> None:
        self._status = status
        self._pid_file = folder / f"{number}.pid"
        self._output = folder / f"{number}.log"
        self._ending = asyncio.ensure_future(self._read_status())

    @classmethod
    def start(
        cls, warm: WarmProcess, arguments: tuple[str, ...], *, main: str, env: dict[str, str], folder: Path, number: int
    ) -> "ForkedProgram":
        """Have the warm process fork it."""
        request = {"arguments": arguments, "cwd": str(folder), "env": env, "main": main}
        request["pid_file"] = str(folder / f"{number}.pid")
        status, status_end = os.pipe()
        with open(os.devnull, "rb") as nothing, (folder / f"{number}.log").open("wb") as output:
            files = [nothing.fileno(), output.fileno(), output.fileno(), status_end]
            # A descriptor of its own: the object would close that of the warm process with itself.
            with socket.socket(fileno=os.dup(warm.fileno())) as requests:
                socket.send_fds(requests, [json.dumps(request).encode()], files)
        os.close(status_end)
        return cls(folder, number, status)

    @property
    def pid(self) -> int:
        """Known from when it begins."""
        return int(self._pid_file.read_text())

    @property
    def output(self) -> str:
        """What it printed and logged."""
        return self._output.read_text(errors="replace")

    @property
    def has_ended(self) -> bool:
        return self._ending.done()

    async def wait(self, *, within: float) -> int:
        """Its exit status; TimeoutError if it goes on."""
        return await asyncio.wait_for(asyncio.shield(self._ending), within)

    def send(self, number: signal.Signals) -> bool:
        """Send a signal. False: it has ended."""
        if self.has_ended or not self._pid_file.exists():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    async def end(self) -> None:
        """Kill it if it still runs, and wait for its end."""
        while not self.has_ended:
            self.send(signal.SIGKILL)
            await asyncio.sleep(0.02)

    async def _read_status(self) -> int:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._status, "rb")
        )
        try:
            return int(await reader.read())
        finally:
            transport.close()
