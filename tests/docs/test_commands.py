"""What the pages say about commands, options and checks is so: each one that they name exists."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from atlas.cli.command_table import COMMANDS, CommandTable, canonical, load_command
from atlas.cli.doctor.database import PROMISES
from atlas.cli.main import app
from tests.docs.pages import PAGES, blocks_of
from tests.support import ROOT

_MENTIONED = re.compile(r"`(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?atlas ([^`]+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_that_a_page_names_exists(page):
    assert [fault for command in mentioned(page) if (fault := fault_of(command)) is not None] == []


def mentioned(page: Path) -> Iterator[str]:
    """The commands in a page's sentences, tables and synopses, without `atlas`."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    yield from (" ".join(command.split()) for command in _MENTIONED.findall(text))
    for block in blocks_of(page, "text"):
        yield from re.findall(r"^atlas (.+)$", block.text, re.MULTILINE)


def fault_of(command: str) -> str | None:
    """What a command names that does not exist."""
    words = command.split()
    words[:1] = [canonical(word) for word in words[:1]]
    if " ".join(words[:2]) in COMMANDS:
        words[:2] = [" ".join(words[:2])]
    found: Any = get_command(app)
    while words and hasattr(found, "commands") and re.fullmatch(r"[a-z][a-z| -]*", words[0]):
        names = words.pop(0).split("|")
        missing = [name for name in names if name not in found.commands]
        if missing:
            return f"{command}: there is no {missing[0]}"
        found = load_command(names[0]) if isinstance(found, CommandTable) else found.commands[names[0]]
    known = {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}
    options = re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(words))
    unknown = [option for option in options if option not in known | {"--help"}]
    return f"{command}: there is no option {unknown[0]}" if unknown else None


@pytest.mark.parametrize("command", ["jbos list", "jobs lsit", "jobs list --stauts x", "host instance edit x --nmae y"])
def test_a_command_that_does_not_exist_is_found(command):
    assert fault_of(command) is not None


def test_every_command_is_on_some_page():
    text = "".join(page.read_text() for page in PAGES)

    assert [name for name in COMMANDS if not re.search(rf"\batlas {name}\b", text)] == []


def test_the_page_of_troubleshooting_has_every_check_of_the_doctor():
    _, _, section = (ROOT / "docs" / "troubleshooting.md").read_text().partition("## Fix what `atlas doctor` finds\n")
    listed = {
        name for row in re.findall(r"^\| (`.+?) \|", section, re.MULTILINE) for name in re.findall("`(.+?)`", row)
    }
    code = "".join(path.read_text() for path in (ROOT / "cli" / "doctor").glob("*.py"))
    checks = {*re.findall(r'(?:finding|Diagnosis)\(\s*"([a-z_ ]+)"', code), *PROMISES}

    assert len(checks) > 20
    assert listed == checks
