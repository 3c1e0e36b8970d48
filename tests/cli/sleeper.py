"""A program for the tests of process trees: `sleeper.py FOLDER NAME [stubborn|ends STATUS|meets OTHER]`.

It writes NAME.started when it is there, and adds its name to `stopped` when it ends because it was received to.
One that ends does so once, with this exit status, when there is a file `go`. One that meets another does not end before
the other is stopped too.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from atlas.cli.programs.process_group import follow_parent

folder, name, *manner = sys.argv[1:]


def stop(*_: object) -> None:
    if manner == ["stubborn"]:
        return
    if manner[:1] == ["meets"]:
        (Path(folder) / f"{name}.stops").touch()
        while not (Path(folder) / f"{manner[1]}.stops").exists():
            threading.Event().wait(0.02)
    with (Path(folder) / "stopped").open("a") as file:
        file.write(f"{name}\n")
    os._exit(0)


signal.signal(signal.SIGTERM, stop)
follow_parent(grace=5)
mark = Path(folder) / f"{name}.started"
is_first = not mark.exists()
# Whoever finds it finds the id in it.
unnamed = mark.with_suffix(".starting")
unnamed.write_text(str(os.getpid()))
unnamed.rename(mark)
if manner[:1] == ["ends"] and is_first:
    while not (Path(folder) / "go").exists():
        threading.Event().wait(0.02)
    sys.exit(int(manner[1]))
print("words on stdout", flush=True)
while True:
    threading.Event().wait(60)
