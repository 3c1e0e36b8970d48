"""Runs the blocks of one page in a folder of its own, as a reader would who types them one after the other."""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from atlas.db.pool import connect
from tests.docs.pages import Block
from tests.docs.stand_ins import StandIns
from tests.support import ROOT

END = "--- end of the output, status"
PROBLEM = '"urn:atlas:problem:'
STOP_SECONDS = 40


class PageFailed(AssertionError):
    """A block of a page does not do what the page says."""


class Process:
    """A program that is given one piece of text after the other, and prints END and a status after each."""

    def __init__(self, argv: list[str], folder: Path, env: dict[str, str], keep: int) -> None:
        self._process = subprocess.Popen(
            argv,
            cwd=folder,
            env=env,
            pass_fds=[keep],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, text: str) -> tuple[int, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()
        printed: list[str] = []
        for line in self._process.stdout:
            if line.startswith(END):
                return int(line.removeprefix(END)), "".join(printed).removesuffix("\n")
            printed.append(line)
        raise PageFailed(f"it ended the program that ran it:\n{''.join(printed)}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


class PageSession:
    """The shell, the Python program and the running programs of one page."""

    def __init__(self, folder: Path, env: dict[str, str], stand_ins: StandIns, warm_process: int) -> None:
        self.folder = folder
        self._programs = folder / ".programs"
        self._programs.mkdir()
        self._env = {**env, "PROGRAMS": str(self._programs), "WARM_PROCESS": str(warm_process)}
        self._stand_ins = stand_ins
        self._keep = warm_process
        self._shell = Process(["bash", "--noprofile", "--norc"], folder, self._env, warm_process)
        self._python: Process | None = None
        self._printed = ""

    def run(self, block: Block, following: Block | None) -> None:
        """Run one block; `following` may say that it is refused."""
        refused = following is not None and following.language == "json" and PROBLEM in following.text
        try:
            match block.language:
                case "python" | "json" | "typescript" if block.file is not None:
                    self._write(block)
                case "python":
                    self._run_python(block)
                case "sh":
                    for command in commands(block.text):
                        self.command(command, may_fail=refused)
                case "console":
                    self._run_console(block)
                case "sql":
                    asyncio.run(self._run_sql(block.text))
                case "json":
                    compare_shapes(json.loads(block.text), first_document(self._printed))
        except (PageFailed, ValueError) as error:
            raise PageFailed(f"{block}: {error}") from None

    def command(self, command: str, *, may_fail: bool = False) -> str:
        """Run one command of the shell and return what it printed."""
        filled = self._stand_ins.fill(command)
        # In a group, not a subshell: what it exports stays.
        status, self._printed = self._shell.run(f"{{ {filled}\n}} </dev/null\nprintf '\\n{END} %s\\n' $?\n")
        self._stand_ins.learn(self._printed)
        if status and not may_fail:
            raise PageFailed(f"`{filled}` ended with {status}:\n{self._printed}")
        return self._printed

    def close(self) -> None:
        """Stop everything that the page started."""
        started = [int(file.read_text()) for file in self._programs.glob("*.pid")]
        for process in (self._shell, self._python):
            if process is not None:
                process.close()
        for pid in started:
            if is_alive(pid):
                os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + STOP_SECONDS
        while any(map(is_alive, started)):
            assert time.monotonic() < end, "a program of the page does not stop"
            time.sleep(0.05)

    def _write(self, block: Block) -> None:
        assert block.file is not None
        if block.language == "json":
            json.loads(block.text)
        file = self.folder / block.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self._stand_ins.fill(block.text))

    def _run_python(self, block: Block) -> None:
        if self._python is None:
            argv = [sys.executable, "-m", "tests.docs.interpreter", END]
            env = {**self._exported(), "PYTHONPATH": f"{ROOT}{os.pathsep}{self.folder}"}
            self._python = Process(argv, self.folder, env, self._keep)
        request = {"page": str(block.page), "line": block.line, "text": self._stand_ins.fill(block.text)}
        status, self._printed = self._python.run(json.dumps(request) + "\n")
        self._stand_ins.learn(self._printed)
        if status:
            raise PageFailed(self._printed)

    def _exported(self) -> dict[str, str]:
        """The environment of the shell as it is now."""
        _, printed = self._shell.run(f"env -0 | tr '\\0\\n' '\\n\\0'; printf '\\n{END} %s\\n' $?\n")
        lines = (line.replace("\0", "\n").partition("=") for line in printed.splitlines())
        return {name: value for name, _, value in lines if name}

    def _run_console(self, block: Block) -> None:
        for command, shown in transcript(block.text):
            printed = self.command(command, may_fail=bool(re.search(r"^error: ", shown, re.MULTILINE)))
            if not is_shown_as(self._stand_ins.unfill(printed), shown):
                raise PageFailed(f"`{command}` printed:\n{printed}\ninstead of:\n{shown}")

    async def _run_sql(self, text: str) -> None:
        conn = await connect(self._stand_ins.owner_url)
        try:
            await conn.execute(text)
        finally:
            await conn.close()


def commands(text: str) -> Iterator[str]:
    """The commands of a block of shell; one may have several lines."""
    command = ""
    for line in text.splitlines():
        command += line
        if is_complete(command):
            if shlex.split(command, comments=True):
                yield command
            command = ""
        else:
            command += "\n"
    if command:
        raise PageFailed(f"the last command is not complete: {command}")


def is_complete(command: str) -> bool:
    if command.endswith("\\"):
        return False
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


def transcript(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console with the lines that are shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        length = next(n for n in range(1, len(lines) + 1) if is_complete("\n".join(lines[:n])))
        yield "\n".join(lines[:length]), "\n".join(lines[length:])


_CHANGES = [
    (r"\b[0-9a-f]{8}-…", "ID"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z)?", "TIME"),
    (r"cli:\w+", "cli:SOMEONE"),
    (r"\b\d+ of \d+ workers\b", "ALL workers"),
    (r"\s+", " "),
]


def is_shown_as(printed: str, shown: str) -> bool:
    """Whether a command printed what a page shows: ids, times and line breaks may differ, `…` stands for anything."""
    for pattern, stand_in in _CHANGES:
        printed, shown = re.sub(pattern, stand_in, printed), re.sub(pattern, stand_in, shown)
    wanted = ".*".join(re.escape(part) for part in shown.strip().split("…"))
    return re.fullmatch(wanted, printed.strip(), re.DOTALL) is not None


def first_document(printed: str) -> Any:
    """The JSON in what was printed, whatever stands before and after it."""
    found, _ = json.JSONDecoder().raw_decode(printed[printed.index("{") :])
    return found


def compare_shapes(shown: Any, printed: Any, where: str = "the document") -> None:
    """Fail unless both have the same fields, with values of the same kinds."""
    match shown, printed:
        case dict(), dict():
            if shown.keys() != printed.keys():
                raise PageFailed(f"{where} has the fields {sorted(printed)}, and not {sorted(shown)}")
            for name in shown:
                compare_shapes(shown[name], printed[name], f"{where}.{name}")
        case [first, *_], [other, *_]:
            compare_shapes(first, other, f"{where}[0]")
        case _ if type(shown) is not type(printed) and None not in (shown, printed):
            raise PageFailed(f"{where} is {printed!r}, which is of another kind than {shown!r}")


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
