"""`atlas` in the shell of a page: a fork of the warm process, or, for a program that does not end, a process beside it.

A reader would start such a program in another terminal; here it is started, and the command returns once it is ready.
"""

import json
import os
import select
import socket
import sys
import time
from pathlib import Path

# What each program that does not end prints when it is ready, and how often.
READY = {
    "up": {"Atlas is ready": 1, "worker started": 3},
    "api": {"the API listens": 1},
    "worker": {"worker started": 1},
    "scheduler": {" scheduler leads": 1},
    "agent": {"serving host": 1},
}
READY_SECONDS = 90


def main(arguments: list[str]) -> int:
    program = arguments[0] if arguments else ""
    ends = program not in READY or "--drain" in arguments
    return run(arguments) if ends else start(arguments, READY[program])


def run(arguments: list[str]) -> int:
    """A command that ends, with this process's own streams."""
    with open(ask(arguments, [0, 1, 2]), "rb") as status:
        return int(status.read())


def start(arguments: list[str], ready: dict[str, int]) -> int:
    """A program that runs until the page ends: its pid and its output are in files of the page's folder."""
    folder = Path(os.environ["PROGRAMS"])
    name = str(len(list(folder.glob("*.log"))))
    log = folder / f"{name}.log"
    with open(os.devnull, "rb") as nothing, log.open("wb") as output:
        streams = [nothing.fileno(), output.fileno(), output.fileno()]
        status = ask(arguments, streams, pid_file=str(folder / f"{name}.pid"))
    end = time.monotonic() + READY_SECONDS
    while not all(log.read_text().count(text) >= times for text, times in ready.items()):
        has_ended, _, _ = select.select([status], [], [], 0.05)
        if has_ended or time.monotonic() > end:
            sys.stdout.write(log.read_text())
            return int(os.read(status, 9)) if has_ended else 1
    if arguments[0] == "up":
        sys.stdout.write("".join(line for line in log.read_text().splitlines(True) if not line.startswith("{")))
    return 0


def ask(arguments: list[str], streams: list[int], **more: str) -> int:
    """Have the warm process run a command in this folder and environment; its status comes through the pipe."""
    warm = socket.socket(fileno=int(os.environ["WARM_PROCESS"]))
    request = {"arguments": arguments, "cwd": os.getcwd(), "env": dict(os.environ), **more}
    status, status_end = os.pipe()
    socket.send_fds(warm, [json.dumps(request).encode()], [*streams, status_end])
    os.close(status_end)
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
