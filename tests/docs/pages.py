"""The pages and their fenced blocks. The language of a block says what is done with it.

| language | what the tests do |
| --- | --- |
| `python` | run, block after block in one process; with a file name in its first line (`# shop/jobs.py`) it is that file |
| `sh` | run, command after command in one shell |
| `console` | run what follows `$`, and compare what it prints with the lines below |
| `sql` | run as the owner of the database |
| `typescript` | with a file name after the language it is that file, which a command compiles and runs |
| `json` | compared with what was printed last; with a file name after the language it is that file |
| `dotenv` | read as settings of Atlas |
| `text` and others in SHOWN | nothing: what someone else prints or reads |
"""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = {"python", "sh", "console", "sql", "json", "typescript"}
CHECKED = {"dotenv"}
SHOWN = {"text", "nginx", "yaml", "prisma"}

_FENCED = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w/]+\.py)\n")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: `line` is where its text begins, `file` the name of the file that it is."""

    page: Path
    line: int
    language: str
    file: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path, *languages: str) -> list[Block]:
    """The blocks of a page, of these languages or of all, in their order."""
    text = page.read_text()
    found = [_block(page, match, text.count("\n", 0, match.start()) + 2) for match in _FENCED.finditer(text)]
    return [block for block in found if not languages or block.language in languages]


def _block(page: Path, match: re.Match[str], line: int) -> Block:
    language, _, file = match["info"].strip().partition(" ")
    text = textwrap.dedent(match["text"])
    if language == "python" and (named := _FILE.match(text)):
        file = named[1]
    return Block(page, line, language, file or None, text)
