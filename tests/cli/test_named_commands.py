"""The commands that remedies and web pages name: each exists, and is named as the reader can type it."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from atlas.api.http.page_files import _with_command
from tests.cli.conftest import environment
from tests.docs.test_commands import fault_of
from tests.support import ROOT

FOLDERS = ("api", "atlas", "audit", "cli", "engine", "integrations", "scheduler", "testing", "workers")
QUOTED = re.compile(r"`(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?atlas ([a-z][^`\n]*)`")
IN_PAGES = re.compile(r"""(?:command|text)=(?:\{[`'"]|")atlas (.*?)(?:[`'"]\}|" ?/?>|" action)""")


def commands_in_code() -> Iterator[tuple[str, str]]:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            for node in ast.walk(ast.parse(text)) if "atlas " in text and "`" in text else ():
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    for command in QUOTED.findall(node.value):
                        yield str(path.relative_to(ROOT)), command


def commands_in_pages() -> Iterator[tuple[str, str]]:
    for path in (ROOT / "web" / "src").rglob("*.tsx"):
        for command in IN_PAGES.findall(path.read_text()) + QUOTED.findall(path.read_text()):
            for part in command.split("&& atlas "):
                yield str(path.relative_to(ROOT)), part


@pytest.mark.parametrize("named", [commands_in_code, commands_in_pages])
def test_every_command_that_a_text_names_exists(named):
    commands = {*named()}
    assert len(commands) > 20
    assert [(where, command, wrong) for where, command in sorted(commands) if (wrong := fault_of(command))] == []


@pytest.mark.parametrize(
    ("folder", "path", "typed"),
    [("clone", "", ".venv/bin/atlas"), ("clone", ".venv/bin", "atlas"), ("elsewhere", "", "{clone}/.venv/bin/atlas")],
)
def test_a_remedy_names_the_command_as_it_is_typed_there(tmp_path: Path, folder: str, path: str, typed: str):
    clone = tmp_path / "clone"
    (tmp_path / "elsewhere").mkdir()
    program = clone / ".venv" / "bin" / "atlas"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{clone}/.venv/bin/python\n")
    program.chmod(0o755)
    code = f"import sys; sys.prefix = {str(clone / '.venv')!r}; from atlas.cli.main import main; main()"
    env = environment(
        tmp_path / "home", PATH=f"{clone / path if path else ''}{os.pathsep}{os.defpath}", DATABASE_URL=None
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, "status"],
        cwd=tmp_path / folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert f"Start one with `{typed.format(clone=clone)} up`" in ran.stderr


def test_the_pages_of_a_clone_name_its_command_and_no_path_of_the_machine():
    page = (ROOT / "web" / "index.html").read_bytes()

    assert b'name="atlas-command" content=".venv/bin/atlas"' in _with_command(page, ".venv/bin/atlas")
    assert _with_command(page, "/opt/atlas/bin/atlas") == page


def test_no_text_installs_the_package_from_a_registry_that_does_not_have_it():
    texts = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *(ROOT / "web" / "src").rglob("*.ts*")]
    texts += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]

    # An extra of the package that is installed is found without a registry.
    assert [
        path.name for path in texts if re.search(r"pip install (?!'atlas-jobs\[)[^\n`]*atlas-jobs", path.read_text())
    ] == []
