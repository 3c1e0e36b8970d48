"""A program for the tests of process trees: `sleeper.py FOLDER NAME [stubborn|dies|ends]`.

It writes NAME.started when it is there, and adds its name to `stopped` when it ends because it was told to.
One that dies or ends does so when there is a file `go`.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from atlas.cli.process_group import follow_parent

folder, name, *manner = sys.argv[1:]


def stop(*_: object) -> None:
    if manner == ["stubborn"]:
        return
    with (Path(folder) / "stopped").open("a") as file:
        file.write(f"{name}\n")
    os._exit(0)


signal.signal(signal.SIGTERM, stop)
follow_parent(grace=5)
(Path(folder) / f"{name}.started").write_text(str(os.getpid()))
if manner in (["dies"], ["ends"]):
    while not (Path(folder) / "go").exists():
        threading.Event().wait(0.02)
    sys.exit(3 if manner == ["dies"] else 0)
print("words on stdout", flush=True)
while True:
    threading.Event().wait(60)
