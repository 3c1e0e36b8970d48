"""What lists look like: on terminals of any width, in pipes, and where the terminal is not UTF-8."""

import asyncio
import os
import pty
import sys
from pathlib import Path

import orjson
import pytest

from atlas.cli.terminal.text_table import TextTable, lines_of
from tests.cli.conftest import environment, run
from tests.support import some

ID = "01a1e110-0000-7000-8000-00000000000a"


@pytest.mark.parametrize("width", [10, 40, 60, 80, 200, None])
def test_ids_are_whole_at_every_width(width):
    rows = [[ID, "acme", "a long description of what it does"], [ID, "other", "none"]]
    lines = lines_of(TextTable(["ID", "TENANT", "DESCRIPTION"], rows), width=width)

    assert sum(ID in line for line in lines) == 2
    assert all(line == line.rstrip() for line in lines)
    assert " ".join("".join(lines).split()).count("description") == 1


def test_the_widest_texts_are_wrapped_between_words_and_fit():
    rows = [[ID, "one two three four five six seven eight nine ten", "short text"]]
    lines = lines_of(TextTable(["ID", "WORDS", "MORE"], rows), width=70)

    assert all(len(line) <= 70 for line in lines)
    assert len(lines) > 2
    assert lines[1].startswith(ID)


def test_wide_characters_take_two_columns_and_a_row_is_one_line_in_a_pipe():
    lines = lines_of(TextTable(["NAME", "X"], [["日本", "1"], ["two\nlines", "2"]]), width=None)

    assert lines == ["NAME       X", "日本       1", "two lines  2"]


async def test_a_list_on_a_narrow_terminal_has_whole_ids(atlas, tmp_path, database_url):
    job = (await atlas("enqueue", "a.work", "--json")).document["id"]
    terminal, end = pty.openpty()
    env = environment(tmp_path / "home", DATABASE_URL=database_url, COLUMNS="30", TERM="dumb")
    command = [sys.executable, "-P", "-m", "atlas.cli.main", "jobs", "list"]
    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, env=env, stdout=end)
    os.close(end)
    await process.wait()
    text = os.read(terminal, 65536).decode()
    os.close(terminal)

    assert job in text


async def test_a_list_in_a_pipe_has_no_blanks_at_the_ends_of_lines(atlas):
    await atlas("tenant", "add", "acme", "--name", "Ächme & Söhne")
    listed = await atlas("tenant", "list")

    assert "Ächme & Söhne" in listed.stdout
    assert all(line == line.rstrip() for line in listed.stdout.splitlines())


@pytest.mark.long
@pytest.mark.parametrize("encoding", some(["ascii", "latin-1"], every=2))
async def test_an_output_that_is_not_utf8_gets_escapes_instead_of_a_traceback(
    atlas, tmp_path: Path, database_url, encoding
):
    await atlas("tenant", "add", "acme", "--name", "Łódź 日本 😀 é")
    env = environment(tmp_path / "home", DATABASE_URL=database_url, PYTHONIOENCODING=encoding)
    command = [sys.executable, "-P", "-m", "atlas.cli.main", "tenant", "list"]

    text = await run(command, cwd=tmp_path, env=env)
    assert (text.code, text.stderr) == (0, "")
    assert "d\\u017a \\u65e5\\u672c" in text.stdout

    document = orjson.loads((await run([*command, "--json"], cwd=tmp_path, env=env)).stdout)
    assert document["tenants"][0]["name"] == "Łódź 日本 😀 é"
    assert (await run([*command, "--help"], cwd=tmp_path, env=env)).code == 0
