"""`atlas up --reload`: programs start again when the user's code changes, in good order, and only with code that compiles."""

import asyncio
import signal
import sys
from pathlib import Path

from atlas.cli.programs.source_files import SourceFiles
from tests.cli.conftest import environment
from tests.support import ROOT, until

PARENT = """
import asyncio, sys
from atlas.cli.programs.process_group import ChildProcess, run_group
from atlas.cli.programs.source_files import notify_changes
from atlas.logs import configure_logs
configure_logs()
sys.path.append(sys.argv[1])
async def main():
    changed = asyncio.Event()
    watching = asyncio.create_task(notify_changes(["shop.jobs"], changed))
    tree = [ChildProcess(name, [sys.executable, "-c", CHILD, sys.argv[1], name]) for name in ("one", "ends")]
    return await run_group(tree, grace=10, report=None, restart=changed)
CHILD = '''
import pathlib, signal, sys, time
folder, name = sys.argv[1:]
def stop(*_):
    with open(f"{folder}/{name}.stopped", "a") as file: file.write("x")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
with open(f"{folder}/{name}.started", "a") as file: file.write("x")
if name == "ends" and "broken at run time" in pathlib.Path(folder, "shop", "jobs.py").read_text(): sys.exit(3)
time.sleep(60)
'''
sys.exit(asyncio.run(main()))
"""


async def test_programs_start_again_when_a_file_changes_and_compiles(tmp_path: Path):
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "__init__.py").touch()
    (shop / "jobs.py").write_text("n = 1\n")
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, str(tmp_path)),
        cwd=ROOT,
        env=environment(tmp_path),
        stderr=asyncio.subprocess.PIPE,
    )
    assert parent.stderr is not None
    try:
        await until(lambda: times(tmp_path, "started") == [1, 1])
        (shop / "jobs.py").write_text("n = 22  # broken at run time\n")
        await until(lambda: times(tmp_path, "started")[0] == 2 and times(tmp_path, "started")[1] >= 2)
        (shop / "jobs.py").write_text("n = (\n")
        async for line in parent.stderr:
            if b"cannot be compiled" in line:
                break
        assert times(tmp_path, "started")[0] == 2
        (shop / "orders.py").write_text("")
        (shop / "jobs.py").write_text("n = 4444\n")
        await until(lambda: times(tmp_path, "started")[0] == 3)
    finally:
        parent.send_signal(signal.SIGTERM)
        await parent.communicate()
    assert parent.returncode == 0
    assert times(tmp_path, "stopped")[0] == 3


def times(folder: Path, what: str) -> list[int]:
    files = [folder / f"{name}.{what}" for name in ("one", "ends")]
    return [len(file.read_text()) if file.exists() else 0 for file in files]


def test_a_module_in_no_package_is_watched_with_the_files_beside_it(tmp_path: Path, monkeypatch):
    (tmp_path / "lone_jobs_of_a_test.py").write_text("n = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    files = SourceFiles(["lone_jobs_of_a_test"])
    assert files.changed() == []
    (tmp_path / "beside.py").touch()
    assert files.changed() == [tmp_path / "beside.py"]
    (tmp_path / "beside.py").unlink()
    assert files.changed() == [tmp_path / "beside.py"]
