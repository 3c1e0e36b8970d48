"""Every module can be the first that a program imports: no order of imports is needed."""

import os
import subprocess
import sys

import pytest

from tests.support import ROOT

# A fork per module, of an interpreter that has loaded the libraries and nothing of Atlas. The first fork finds out which.
EACH_FIRST = """
import contextlib, gc, importlib, os, pathlib, sys, traceback

FOLDERS = ("api", "atlas", "audit", "cli", "engine", "scheduler", "testing", "workers")

def modules():
    for folder in FOLDERS:
        for path in sorted(pathlib.Path(folder).rglob("*.py")):
            parts = path.with_suffix("").parts if path.name != "__init__.py" else path.parent.parts
            if parts[-1] != "__main__":
                yield ".".join(parts if folder == "atlas" else ("atlas", *parts))

def in_a_fork(work):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            os.write(writing, work().encode())
        except BaseException:
            os.write(writing, traceback.format_exc()[-2000:].encode())
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    return os.waitpid(pid, 0)[1], said

def load(names):
    for name in names:
        importlib.import_module(name)
    return " ".join(name for name in sys.modules if name.split(".")[0] != "atlas" and name != "__main__")

names = list(modules())
_, libraries = in_a_fork(lambda: load(["atlas.engine.jobs", *names]))
for library in libraries.split():
    with contextlib.suppress(ImportError):  # some modules only a library itself can make
        importlib.import_module(library)
assert not any(name.split(".")[0] == "atlas" for name in sys.modules)
gc.freeze()
failed = 0
for name in names:
    status, said = in_a_fork(lambda: load([name]) and "")
    if status:
        failed += 1
        print(name, said, sep="\\n")
print(len(names), "modules")
sys.exit(min(failed, 1))
"""


@pytest.mark.slow
def test_every_module_can_be_imported_first():
    """`tests/test_house.py` finds circles without loading anything; this is the proof that it finds all."""
    # Without bytecode each of the forks would compile what it imports.
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        [sys.executable, "-c", EACH_FIRST], capture_output=True, text=True, check=False, cwd=ROOT, env=env
    )

    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
