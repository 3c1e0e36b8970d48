"""What `make docs` adds to MkDocs: README.md is the first page, and links that leave docs/ become names of files."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
# A link from a page to a file beside docs/, which the site does not have.
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([^)#]+)(?:#[^)]*)?\)")
# What follows the language of a block is for tests/docs/, and MkDocs would take the block for text.
FENCE = re.compile(r"^( *```[a-z]+) .+$", re.MULTILINE)
# A link of README.md, as it is from within docs/.
INSIDE = re.compile(r"(\]\(|srcset=\"|src=\")docs/")
BESIDE = re.compile(r"\[([^\]]+)\]\(([A-Z]+\.md|[a-z]+/[^)]*)\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Make README.md the first page."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = INSIDE.sub(r"\1@docs@/", readme)
    named = BESIDE.sub(_named, named)
    files.append(File.generated(config, "index.md", content=named.replace("@docs@/", "")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Name the files beside docs/ instead of linking to them."""
    return FENCE.sub(r"\1", OUTSIDE.sub(_named, markdown))


def _named(link: re.Match[str]) -> str:
    text, path = link[1], link[2]
    return text if path.rstrip("/") in text else f"{text} (`{path}`)"
