"""The house: imports go down and never climb, every folder says what lives in it, nothing names a registry."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Each floor, and the floors below it that it may use.
ARROWS = {
    "atlas": set[str](),
    "audit": {"atlas"},
    "engine": {"audit", "atlas"},
    "workers": {"engine", "audit", "atlas"},
    "scheduler": {"engine", "audit", "atlas"},
    "api": {"engine", "audit", "atlas"},
    "testing": {"workers", "engine", "audit", "atlas"},
    "cli": {"workers", "scheduler", "api", "engine", "audit", "atlas"},
}
BESIDE = {"bench", "tests"}
# It names what users import, from every floor, and loads it when it is used.
PUBLIC_NAMES = ROOT / "atlas" / "__init__.py"
NOT_OURS = {".git", ".venv", ".types", "build", ".atlas", "node_modules", "__pycache__", "results", "dist"}


def files(folder: Path, *endings: str) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in NOT_OURS and not name.endswith("_cache"))
        yield from (Path(here, name) for name in sorted(names) if not endings or name.endswith(endings))


def imported(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Every module that a source names, wherever the import stands: in a function, under a condition, as a call."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name) for name in names)
            case ast.ImportFrom(module="atlas", names=names, level=0):
                yield from ((node.lineno, f"atlas.{name.name}") for name in names)
            case ast.ImportFrom(module=module, level=0):
                yield node.lineno, module or ""
            case ast.ImportFrom(module=module, level=level):
                parent = package.split(".")[: len(package.split(".")) - level + 1]
                yield node.lineno, ".".join([*parent, *([module] if module else [])])
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
                if ast.unparse(function) in ("__import__", "import_module", "importlib.import_module"):
                    yield node.lineno, name


def climbs(floor: str, source: str, package: str) -> list[tuple[int, str]]:
    """The imports of a source on this floor that point to where it may not look."""
    return [
        (line, module)
        for line, module in imported(source, package)
        if (top := floor_of(module)) is not None and top != floor and top not in ARROWS[floor]
    ]


def floor_of(module: str) -> str | None:
    """The folder at the top of the repository that an import name leads to, or None for another's package."""
    match module.split("."):
        case ["atlas", name, *_] if name in ARROWS:
            return name
        case [name, *_] if name == "atlas" or name in BESIDE:
            return name
    return None


def import_name(folder: Path) -> str:
    parts = folder.relative_to(ROOT).parts
    return ".".join(parts if parts[0] == "atlas" else ("atlas", *parts))


@pytest.mark.parametrize("floor", ARROWS)
def test_imports_go_down_and_never_climb(floor):
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in files(ROOT / floor, ".py")
        if path != PUBLIC_NAMES
        for line, module in climbs(floor, path.read_text(), import_name(path.parent))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import atlas.cli",
        "import atlas.api.app as x",
        "from atlas import scheduler",
        "def late():\n    from atlas.workers.loop import serve",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import atlas.cli.main",
        "try:\n    import tests.conftest\nexcept ImportError: ...",
        "import importlib\nimportlib.import_module('atlas.api.app')",
    ],
)
def test_an_import_that_climbs_is_found_wherever_it_hides(source):
    assert climbs("engine", source, "atlas.engine.jobs")


def test_neighbours_do_not_import_each_other():
    for floor in ("workers", "scheduler", "api"):
        assert not ARROWS[floor] & {"workers", "scheduler", "api"}


@pytest.mark.parametrize("floor", [*ARROWS, "bench"])
def test_every_folder_of_code_says_in_a_sentence_what_lives_in_it(floor):
    folders = {path.parent for path in files(ROOT / floor, ".py")}
    silent = [str(folder.relative_to(ROOT)) for folder in folders if not says_its_sentence(folder / "__init__.py")]
    assert (ROOT / floor) in folders
    assert silent == []


def says_its_sentence(face: Path) -> bool:
    words = ast.get_docstring(ast.parse(face.read_text())) if face.exists() else None
    return words is not None and words.splitlines()[0].endswith(".")


def test_no_file_names_the_host_of_a_registry():
    # Put together here, so that this file names none either.
    hosts = [
        ".".join(parts) for parts in (("registry", "npmjs"), ("pypi", "org"), ("pythonhosted", "org"), ("prisma", "sh"))
    ]
    naming = [
        str(path.relative_to(ROOT))
        for path in files(ROOT)
        if path.stat().st_size < 2**22 and any(host.encode() in path.read_bytes() for host in hosts)
    ]
    assert naming == []
