"""Splits the generated Prisma client into a file for each table, and lets the input of a new job be a plain dict.

A step of the set-up: `python tools/split_client.py generated`. The classes of all tables take 0.1 s of CPU to import,
and most commands use one or two. `models.Tenant` is in `models_Tenant.py` afterwards, and loaded when it is first used;
type checkers see an ordinary import. What only Prisma's own generator uses, the fields of partial types, is left out.

It uses the standard library alone.
"""

import ast
import sys
from collections.abc import Iterable
from pathlib import Path

MODULES = ("bases", "models", "actions")
NEW_JOBS = ("JobOptionalCreateInput", "JobOptionalCreateWithoutRelationsInput")

FACE = """
if TYPE_CHECKING:
{imports}
else:
    from atlas.db.generated_prisma import load_part

    def __getattr__(name):
        return load_part(__name__, name)
"""


def main() -> None:
    """Split the client in the folder that is the argument."""
    for module in MODULES:
        split(Path(sys.argv[1]) / f"{module}.py")
    take_plain_inputs(Path(sys.argv[1]) / "types.py")


def split(file: Path) -> None:
    """Move each public class of a module to a file of its own, with the imports and constants that it needs."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    statements = ast.parse(text).body
    classes = [
        statement
        for statement in statements
        if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_")
    ]
    before = [statement for statement in statements if statement.lineno < classes[0].lineno]
    after = [statement for statement in statements if statement.lineno > classes[-1].lineno]
    imports = [statement for statement in after if isinstance(statement, ast.Import | ast.ImportFrom)]
    private = [statement for statement in (*before, *after) if isinstance(statement, ast.ClassDef | ast.FunctionDef)]
    head = [
        *_texts(lines, (statement for statement in before if statement not in private)),
        *(f"from .{file.stem} import {statement.name}" for statement in private),
    ]
    for node in classes:
        part = file.with_name(f"{file.stem}_{node.name}.py")
        part.write_text("\n".join([*head, *_texts(lines, [node, *imports])]) + "\n", encoding="utf-8")
    shared = [*before, *(statement for statement in after if statement in private), *imports]
    typed = "\n".join(f"    from .{file.stem}_{node.name} import {node.name} as {node.name}" for node in classes)
    file.write_text("\n".join([*_texts(lines, shared), FACE.format(imports=typed)]), encoding="utf-8")


def take_plain_inputs(file: Path) -> None:
    """Type the input of a new job as what `job.create` takes: Json, or a plain dict."""
    lines = file.read_text(encoding="utf-8").splitlines()
    for statement in ast.parse("\n".join(lines)).body:
        if isinstance(statement, ast.ClassDef) and statement.name in NEW_JOBS:
            line = lines.index("    input: 'fields.Json'", statement.lineno)
            lines[line] = "    input: Union['fields.Json', Mapping[str, Any]]"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _texts(lines: list[str], statements: Iterable[ast.stmt]) -> list[str]:
    return ["\n".join(lines[statement.lineno - 1 : statement.end_lineno]) for statement in statements]


if __name__ == "__main__":
    main()
