"""Several programs as one: they start in order, stop in order, and none outlives its parent."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import environment
from tests.support import ROOT, until

SLEEPER = Path(__file__).parent / "sleeper.py"
PARENT = """
import asyncio, sys
from atlas.logs import configure_logs
from atlas.cli.programs.process_group import ChildProcess, run_group
configure_logs()
folder, grace, *names = sys.argv[1:]
tree = [
    ChildProcess(name, [sys.executable, {sleeper!r}, folder, *name.split(":")], kind="meets" if "meets" in name else None)
    for name in names
]
sys.exit(asyncio.run(run_group(tree, grace=float(grace), may_end=any("ends:0" in name for name in names))))
"""


@pytest.fixture
async def start(tmp_path: Path):
    """Start a tree of sleepers and wait until they all stand."""
    parents = []

    async def call(*names: str, grace: float = 5):
        parent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PARENT.format(sleeper=str(SLEEPER)), str(tmp_path), str(grace), *names),
            cwd=ROOT,
            env=environment(tmp_path),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        parents.append(parent)
        await until(lambda: len(list(tmp_path.glob("*.started"))) == len(names))
        return parent

    yield call
    for parent in parents:
        if parent.returncode is None:
            parent.kill()
        await parent.wait()
    await until(lambda: not any(map(alive, pids(tmp_path))))


def pids(folder: Path) -> list[int]:
    return [int(file.read_text()) for file in folder.glob("*.started")]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def stopped(folder: Path) -> list[str]:
    file = folder / "stopped"
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_the_programs_in_reverse_order_and_ends_with_0(start, tmp_path, number):
    parent = await start("first", "second", "third")

    parent.send_signal(number)

    assert await parent.wait() == 0
    assert stopped(tmp_path) == ["third", "second", "first"]


@pytest.mark.long
async def test_neighbours_of_one_kind_stop_together_after_those_that_started_later(start, tmp_path):
    parent = await start("first:meets:second", "second:meets:first", "third", grace=60)

    parent.terminate()
    _, words = await parent.communicate()

    assert stopped(tmp_path)[0] == "third"
    assert sorted(stopped(tmp_path)) == ["first", "second", "third"]
    assert b"did not stop in time" not in words


@pytest.mark.long
@pytest.mark.parametrize("end", ["exit", "kill"])
async def test_a_program_that_ends_is_started_again_and_the_others_go_on(start, tmp_path, end):
    parent = await start("first", "second:ends:3")
    first, second = tmp_path / "first.started", tmp_path / "second.started"
    pid, other = int(second.read_text()), first.read_text()
    if end == "exit":
        (tmp_path / "go").touch()
    else:
        os.kill(pid, signal.SIGKILL)
    await until(lambda: second.read_text() not in ("", str(pid)))
    assert alive(int(second.read_text()))
    assert first.read_text() == other
    parent.send_signal(signal.SIGTERM)
    _, words = await parent.communicate()

    assert parent.returncode == 0
    assert (b"exit status 3" if end == "exit" else b"signal 9 (Killed)") in words


@pytest.mark.long
async def test_a_program_that_refuses_to_begin_stops_the_others_and_is_a_failure(start, tmp_path):
    parent = await start("first", "second:ends:1")
    (tmp_path / "go").touch()

    _, words = await parent.communicate()

    assert parent.returncode == 1
    assert stopped(tmp_path) == ["first"]
    assert b"program refused to run" in words


@pytest.mark.long
async def test_programs_that_may_end_are_waited_for_and_end_well(start, tmp_path):
    parent = await start("first:ends:0", "second:ends:0")
    (tmp_path / "go").touch()

    assert await parent.wait() == 0
    assert stopped(tmp_path) == []


@pytest.mark.long
async def test_a_program_that_may_end_but_refuses_is_still_a_failure(start, tmp_path):
    parent = await start("first:ends:0", "second:ends:1", "third")
    (tmp_path / "go").touch()

    assert await parent.wait() == 1
    assert stopped(tmp_path) == ["third"]


async def test_programs_stop_when_their_parent_is_killed(start, tmp_path):
    parent = await start("first", "second")

    parent.kill()

    await until(lambda: not any(map(alive, pids(tmp_path))))
    assert sorted(stopped(tmp_path)) == ["first", "second"]


async def test_a_program_that_does_not_stop_in_time_is_killed_and_the_rest_still_stops(start, tmp_path):
    parent = await start("first", "second:stubborn", grace=-9.9)

    parent.terminate()
    _, words = await parent.communicate()

    assert parent.returncode == 0
    assert stopped(tmp_path) == ["first"]
    assert b"did not stop in time and is killed" in words


@pytest.mark.long
async def test_a_second_signal_does_not_wait_for_anyone(start, tmp_path):
    parent = await start("first:stubborn", "second:stubborn", grace=600)

    parent.send_signal(signal.SIGINT)
    while parent.returncode is None:
        parent.send_signal(signal.SIGINT)
        await asyncio.sleep(0.05)

    assert not any(map(alive, pids(tmp_path)))


async def test_what_programs_print_goes_to_stderr(start):
    parent = await start("first")
    parent.terminate()
    out, err = await parent.communicate()

    assert out == b""
    assert b"words on stdout" in err
