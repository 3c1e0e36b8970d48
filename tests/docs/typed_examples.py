"""Writes the Python examples of the pages as modules, for mypy: those that are a file, and those that are a program of their own.

python -m tests.docs.typed_examples FOLDER     anew, and their folder is removed first
"""

import ast
import re
import shutil
import sys
from pathlib import Path

from tests.docs.pages import PAGES, Block, blocks_of

# Several pages have a package of these names; each gets one of its own.
_PACKAGE = re.compile(r"^(from|import) (shop|billing)\b", re.MULTILINE)


def write_examples(folder: Path) -> list[Path]:
    """Write the examples that are complete modules, and return their files."""
    shutil.rmtree(folder, ignore_errors=True)
    return [_write(folder, block) for page in PAGES for block in blocks_of(page, "python") if _is_module(block)]


def _write(folder: Path, block: Block) -> Path:
    page = block.page.stem.replace("-", "_").lower()
    package, _, name = (block.file or "").rpartition("/")
    file = folder / f"{page}_{package}" / name if package else folder / (name or "none.py")
    # A page may show two states of one file, and two pages files of one name.
    if not package and (not name or file.exists()):
        file = folder / f"{page}_{block.line}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    if package:
        (file.parent / "__init__.py").touch()
    file.write_text(_PACKAGE.sub(rf"\1 {page}_\2", block.text))
    return file


def _is_module(block: Block) -> bool:
    """False for a block that goes on where another one ended, or awaits outside of a function."""
    if "the function above" in block.text:
        return False
    try:
        statements = ast.parse(block.text).body
    except SyntaxError:
        return False
    begins = statements[0] if statements else None
    awaits = any(isinstance(node, ast.Await | ast.AsyncWith | ast.AsyncFor) for node in _outside_functions(statements))
    return block.file is not None or (isinstance(begins, ast.Import | ast.ImportFrom) and not awaits)


def _outside_functions(statements: list[ast.stmt]) -> list[ast.AST]:
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(statements)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            found.append(node)
            waiting += ast.iter_child_nodes(node)
    return found


if __name__ == "__main__":
    write_examples(Path(sys.argv[1]))
