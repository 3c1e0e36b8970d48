"""Helper processes: they return what a function does, end when it takes too long, and never outlive their parent."""

import asyncio
import os
import signal
import sys
import time

import psutil
import pytest

from atlas.engine import helper_process
from atlas.engine.helper_process import HelperFailed, HelperPool, run_here
from atlas.engine.templates import TemplateError, render
from tests.support import until

PARENT = """
import asyncio, os
from atlas.engine.helper_process import HelperPool
print(asyncio.run(HelperPool(1).run(os.getpid)), flush=True)
input()
"""


@pytest.fixture(scope="module")
def helpers():
    return HelperPool(1)


async def test_results_and_errors_are_those_of_the_function(helpers):
    here = [run_here(render, "{{ 1 + n }}", {"n": 1}), run_here(render, "{{ m }}", {}, path="p")]
    there = [helpers.run(render, "{{ 1 + n }}", {"n": 1}), helpers.run(render, "{{ m }}", {}, path="p")]

    for value, error in (here, there):
        assert await value == 2
        with pytest.raises(TemplateError, match="'m' is undefined") as raised:
            await error
        assert [one.field for one in raised.value.errors] == ["p"]


@pytest.mark.parametrize(
    ("limit", "call", "reason"),
    [
        ("CALL_SECONDS", (sum, range(10**12)), "of processor time, and nothing was changed"),
        ("MAX_SECONDS", (time.sleep, 60), "took more than 0 s"),
    ],
)
async def test_a_call_that_takes_too_long_is_killed_and_the_next_one_works(helpers, monkeypatch, limit, call, reason):
    pid = await helpers.run(os.getpid)
    monkeypatch.setattr(helper_process, limit, 0.2)
    with pytest.raises(HelperFailed, match=reason):
        await helpers.run(*call)
    monkeypatch.undo()

    assert not psutil.pid_exists(pid)
    assert await helpers.run(os.getpid) != pid


async def test_a_call_that_waits_for_a_processor_is_not_too_long(helpers, monkeypatch):
    monkeypatch.setattr(helper_process, "CALL_SECONDS", 0.2)
    pid = await helpers.run(os.getpid)
    # It waits, as on a busy machine, for longer than the limit.
    assert await helpers.run(time.sleep, 0.6) is None
    assert await helpers.run(os.getpid) == pid


async def test_a_helper_that_dies_fails_its_call_alone(helpers):
    with pytest.raises(HelperFailed, match="ended half-way"):
        await helpers.run(signal.raise_signal, signal.SIGKILL)
    assert await helpers.run(abs, -1) == 1


async def test_what_a_function_prints_does_not_mix_with_results(helpers):
    assert await helpers.run(print, "noise") is None
    assert await helpers.run(abs, -1) == 1


async def test_a_helper_ends_with_its_parent():
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, **pipes)
    helper = psutil.Process(int(await parent.stdout.readline()))
    parent.kill()
    await parent.wait()
    await until(lambda: not helper.is_running() or helper.status() == psutil.STATUS_ZOMBIE)
