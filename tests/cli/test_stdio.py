"""Streams that are closed or full: what a command does then, and what it says."""

import sys

import pytest

from tests.cli.conftest import environment, run


@pytest.fixture
def shell(tmp_path, database_url, known_types):
    """`await shell("<&-", "status")`: the command with its streams redirected by a shell."""

    async def call(redirection, *arguments, **settings):
        command = [sys.executable, "-P", "-m", "atlas.cli.main", *arguments]
        env = environment(tmp_path / "home", DATABASE_URL=database_url, **settings)
        return await run(["/bin/sh", "-c", f'"$@" {redirection}', "sh", *command], cwd=tmp_path, env=env)

    return call


@pytest.mark.long
@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
async def test_a_stream_that_is_closed_does_not_end_a_command_half_way(shell, conn, redirection):
    ran = await shell(redirection, "enqueue", "a.work", "--json")

    [job] = await conn.fetch("select id from atlas.jobs")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == "" if " >&-" in f" {redirection}" else ran.document["id"] == str(job["id"])


async def test_an_input_from_a_stream_that_is_closed_is_no_object(shell):
    assert "the text on stdin" in (await shell("<&-", "enqueue", "a.work", "--input", "-")).refusal


@pytest.mark.long
@pytest.mark.parametrize("arguments", [("status",), ("status", "--json"), ("jobs", "list"), ("audit", "tail")])
async def test_output_that_cannot_be_written_is_an_error_with_its_reason(atlas, shell, arguments):
    await atlas("enqueue", "a.work")

    ran = await shell(">/dev/full", *arguments)

    assert "The output cannot be written: No space left on device." in ran.refusal


@pytest.mark.parametrize("arguments", [("jobs", "list"), ("jobs", "list", "--json")])
async def test_a_reader_that_closes_the_pipe_causes_no_message(atlas, shell, arguments):
    await atlas("enqueue", "a.work")

    ran = await shell("| true", *arguments)

    assert (ran.stdout, ran.stderr) == ("", "")


@pytest.mark.long
async def test_a_slow_reader_gets_all_of_a_long_output(atlas, shell, tmp_path):
    (tmp_path / "input.json").write_text(f'{{"x": "{"y" * 250_000}"}}')
    made = (await atlas("enqueue", "a.work", "--input", "@input.json", "--json")).document

    ran = await shell("| (sleep 1; cat)", "jobs", "show", made["id"], "--json", PYTHONUNBUFFERED="1")

    assert len(ran.document["job"]["input"]["x"]) == 250_000


async def test_unbuffered_lines_are_written_at_once(tmp_path):
    said = "from atlas.cli.terminal.stdio import prepare_streams; prepare_streams(); print('x'); import os; os.kill(os.getpid(), 9)"
    env = environment(tmp_path / "home", PYTHONUNBUFFERED="1")

    assert (await run([sys.executable, "-c", said], cwd=tmp_path, env=env)).stdout == "x\n"
