"""The house: imports go down, every folder says what lives in it, names that texts mention exist."""

import ast
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from graphlib import TopologicalSorter
from itertools import accumulate, takewhile
from pathlib import Path

import pytest

from tests.support import ROOT

THIS = Path(__file__)

# Each floor, and the floors below it that it may use.
ARROWS = {
    "atlas": set[str](),
    "audit": {"atlas"},
    "engine": {"audit", "atlas"},
    "workers": {"engine", "audit", "atlas"},
    "scheduler": {"engine", "audit", "atlas"},
    "api": {"engine", "audit", "atlas"},
    "testing": {"workers", "engine", "audit", "atlas"},
    "integrations": {"engine", "atlas"},
    "cli": {"workers", "scheduler", "api", "engine", "audit", "atlas"},
}
BESIDE = {"bench", "tests", "tools"}
# It names what users import, from every floor, and loads it when it is used.
PUBLIC_NAMES = ROOT / "atlas" / "__init__.py"
NOT_OURS = {".git", ".venv", ".types", "build", "generated", ".atlas", "node_modules", "__pycache__", "results", "dist"}


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
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name


def climbs(floor: str, source: str, package: str) -> list[tuple[int, str]]:
    """The imports of a source on this floor that point to where it may not look."""
    above = "|".join((ARROWS.keys() | BESIDE) - ARROWS[floor] - {floor})
    if not re.search(rf"\b({above})\b", source):
        return []
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


def test_no_module_needs_another_to_be_imported_before_it():
    """There is no circle, so that every module can be the first that a program imports."""
    paths = [path for floor in ARROWS for path in files(ROOT / floor, ".py")]
    modules = {import_name(path.parent if path.stem == "__init__" else path.with_suffix("")): path for path in paths}
    graph = {name: set(loaded_by(name, path, modules.keys())) for name, path in modules.items()}

    assert len(modules) > 300
    TopologicalSorter(graph).prepare()


def loaded_by(name: str, path: Path, modules: Collection[str]) -> Iterator[str]:
    """The modules that a module loads while it is loaded, packages around them included.

    The packages around the module itself are being loaded already, and count only where it wants a name of theirs.
    """
    around = set(accumulate(name.split("."), "{}.{}".format))
    for node in when_loaded(ast.parse(path.read_text()).body):
        wanted: list[str] = []
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            within = [f"{node.module}.{alias.name}" for alias in node.names]
            wanted = [one if one in modules else str(node.module) for one in within]
        for one in wanted:
            packages = set(accumulate(one.split(".")[:-1], "{}.{}".format))
            yield from ({one} | (packages - around)) & set(modules)


def when_loaded(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is loaded: not those of functions, nor for type checkers alone."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        for part in ("body", "orelse", "handlers", "finalbody"):
            yield from when_loaded(getattr(node, part, []))


def test_neighbours_do_not_import_each_other():
    for floor in ("workers", "scheduler", "api"):
        assert not ARROWS[floor] & {"workers", "scheduler", "api"}


@pytest.mark.parametrize("floor", [*ARROWS, "bench", "tools"])
def test_every_folder_of_code_says_in_a_sentence_what_lives_in_it(floor):
    folders = {path.parent for path in files(ROOT / floor, ".py")}
    silent = [str(folder.relative_to(ROOT)) for folder in folders if not says_its_sentence(folder / "__init__.py")]
    assert (ROOT / floor) in folders
    assert silent == []


def says_its_sentence(face: Path) -> bool:
    words = ast.get_docstring(ast.parse(face.read_text())) if face.exists() else None
    return words is not None and words.splitlines()[0].endswith(".")


def test_every_statement_says_why_it_is_sql():
    """Everyday reads and writes are typed calls. A file of SQL is what Prisma cannot say, or should not."""
    statements = [path for floor in ARROWS for path in files(ROOT / floor, ".sql") if path.parent.name == "sql"]
    assert len(statements) > 100
    assert [str(path.relative_to(ROOT)) for path in statements if "SQL, because " not in header_of(path)] == []


# What runs for each job, step, effect or request.
FREQUENT = (
    *("enqueue", "enqueue_many", "claim", "turn", "claim_leased", "commit_attempt", "load_runs", "record_steps"),
    *("begin_effect", "end_effect", "hold_session"),
)
# Called when a request is refused, when an approval ends, or for old ids. The planner computes lock_class once.
SELDOM = {"near_types", "input_fields", "state_digest", "history_tables", "lock_class"}


def test_functions_that_run_often_keep_their_plans():
    """Before Postgres 18 a function in SQL is parsed and planned at each call, unless it becomes part of its caller.

    One with settings never does.
    """
    texts = {
        path.stem: path.read_text()
        for floor in ARROWS
        for path in files(ROOT / floor, ".sql")
        if "functions" in path.parts
    }
    reached, left = set[str](), list(FREQUENT)
    while left:
        name = left.pop()
        reached.add(name)
        left += {called for called in re.findall(r"\b(\w+)\(", texts[name]) if called in texts} - reached
    assert len(reached) > 50
    planned_anew = {name for name in reached if re.search(r"language sql\b[^$]*\bset search_path", texts[name])}
    assert planned_anew == SELDOM


def header_of(path: Path) -> str:
    """The comment at the top of a file of SQL, as one line."""
    lines = takewhile(lambda line: line.startswith("--"), path.read_text().splitlines())
    return " ".join(line.removeprefix("--").strip() for line in lines)


def test_no_class_name_stands_for_two_things():
    places: dict[str, list[str]] = defaultdict(list)
    for floor in [*ARROWS, "bench", "tools"]:
        for path in files(ROOT / floor, ".py"):
            for name in re.findall(r"^\s*class (\w+)", path.read_text(), re.MULTILINE):
                places[name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


# Shapes of an address that packages are downloaded from. Which packages, and their hashes, is what a lock file is for;
# where they come from is the choice of the machine that installs them.
DOWNLOADS = re.compile(
    rb"""
      "resolved": \s* "https?:                      # npm's lock files
    | https?:// [^\s"'<>]+ /-/ [^\s"'<>]+ \.tgz      # a package of npm's
    | https?:// [^\s"'<>]+ \.(?:whl|tar\.gz|tgz)\b  # a package of pip's
    | \.(?:whl|tar\.gz) \# sha256=
    | (?:index-url|find-links|registry) [\s"]* [=:\s] [\s"]* https?:
    """,
    re.VERBOSE,
)


def test_every_log_line_about_a_job_says_all_of_it():
    """`job_facts` alone names the ids of a job in the log, so that no line lacks some of them."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for floor in ("engine", "workers", "scheduler", "api")
        for path in sorted((ROOT / floor).rglob("*.py"))
        if "job_id=" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and any(word.arg == "job_id" for word in node.keywords)
        and re.fullmatch(r"(.+\.)?log\.(debug|info|warning|error|exception)", ast.unparse(node.func))
    ]
    assert found == []


def test_no_file_names_an_address_that_packages_come_from():
    naming = [
        str(path.relative_to(ROOT))
        for path in files(ROOT)
        if path != THIS and path.stat().st_size < 2**22 and DOWNLOADS.search(path.read_bytes())
    ]
    assert naming == []


@pytest.mark.parametrize(
    "text",
    [
        '"resolved": "HOST/left-pad/-/left-pad-1.3.0.tgz"',
        "left-pad@HOST/left-pad/-/left-pad-1.3.0.tgz",
        "url = HOST/ab/cd/thing-1.0-py3-none-any.whl",
        "../../thing-1.0.tar.gz#sha256=0a0b",
        "pip install --index-url HOST/simple thing",
        "--extra-index-url=HOST/simple",
        "registry=HOST/",
        '"registry": "HOST"',
    ],
)
def test_such_an_address_is_known_by_its_shape(text):
    assert DOWNLOADS.search(text.replace("HOST", "https" + "://packages.example").encode())


FOLDERS = "api|atlas|audit|bench|cli|docs|engine|examples|migrations|scheduler|testing|tests|tools|workers"
OUR_PATH = re.compile(rf"(?<![\w./*{{}}>~-])(?:{FOLDERS})(?:/[a-z_0-9]+)+(?:\.[a-z]+)?(?![\w/*{{-])")
TEXT = (".py", ".sql", ".md", ".toml", ".mjs", ".html", ".js", ".css", ".prisma", "Makefile")


def test_every_path_that_a_text_names_exists():
    # A migration is never edited: it names what there was.
    texts = [path for path in files(ROOT, *TEXT) if path.name != "migration.sql"]
    missing = [
        f"{path.relative_to(ROOT)} names {named}"
        for path in texts
        for named in OUR_PATH.findall(path.read_text())
        if not exists(named)
    ]
    assert missing == []


def exists(named: str) -> bool:
    """A file or folder of the repository, or a file named without its ending."""
    path = ROOT / named
    return path.exists() or any(path.parent.glob(f"{path.name}.*"))


# What carries an option of a job from its callers into its row and back; both guides list the same files.
MAX_FILES_OF_AN_OPTION = 8
CARRY_AN_OPTION = {
    *(
        "schema.prisma",
        "api/models/jobs.py",
        "atlas/models/jobs.py",
        "cli/jobs/enqueue.py",
        "engine/jobs/new_jobs/new_job.py",
    ),
    *("engine/jobs/functions/enqueue/enqueue.sql", "engine/jobs/functions/enqueue/enqueue_many.sql"),
    "engine/jobs/lists/find.py",
}
# What decides by the deadline, or names it in a message.
DECIDE_BY_FINISH_BY = {
    *("engine/hosts/sql/leased_job.sql", "engine/jobs/functions/claim/claimed_row.sql", "engine/jobs/verdicts.py"),
    *(f"engine/jobs/functions/outcomes/{name}.sql" for name in ("expire_jobs", "finish", "reclaim_jobs")),
    *("engine/jobs/functions/actions/reopen_jobs.sql", "workers/attempts/attempt.py"),
}


def test_an_option_of_a_job_is_named_only_where_it_is_carried_and_where_it_decides():
    sources = [path for folder in (*ARROWS, "schema.prisma") for path in _sources(ROOT / folder)]
    named = {
        path.relative_to(ROOT).as_posix() for path in sources if re.search(r"\bfinish_?by\b", path.read_text(), re.I)
    }

    assert named == CARRY_AN_OPTION | DECIDE_BY_FINISH_BY
    assert len(CARRY_AN_OPTION) <= MAX_FILES_OF_AN_OPTION
    for guide in ("AGENTS.md", "CONTRIBUTING.md"):
        text = (ROOT / guide).read_text()
        assert [path for path in sorted(CARRY_AN_OPTION) if f"`{path}`" not in text] == []


def _sources(path: Path) -> list[Path]:
    return [path] if path.is_file() else list(files(path, ".py", ".sql"))


MAX_FUNCTION_LINES = 50
MAX_COLLABORATORS = 6
_FUNCTION = re.compile(r"( *)(?:async )?def (\w+)")
_CLASS = re.compile(r"\b[A-Z]\w+")


def test_every_function_fits_on_a_screen():
    long = [
        f"{path.relative_to(ROOT)}:{line} {name} has {length} lines"
        for floor in ARROWS
        for path in files(ROOT / floor, ".py")
        for line, name, length in lengths(path.read_text())
        if length > MAX_FUNCTION_LINES
    ]
    assert long == []


def lengths(source: str) -> Iterator[tuple[int, str, int]]:
    """Each function's first line, name and number of lines, read from the indentation."""
    lines = source.splitlines()
    for start, text in enumerate(lines):
        if function := _FUNCTION.match(text):
            deeper, closing = f"{function[1]} ", f"{function[1]})"
            body = takewhile(lambda line: not line or line.startswith((deeper, closing)), lines[start + 1 :])
            yield start + 1, function[2], len("\n".join([text, *body]).rstrip().splitlines())


def test_the_length_of_a_function_counts_its_signature_and_body():
    source = "def short(\n    a: int,\n) -> int:\n    b = a\n\n    return b\n\n\nclass A:\n    def one(self): ...\n\n    x = 1\n"
    assert list(lengths(source)) == [(1, "short", 6), (10, "one", 1)]


def test_no_constructor_takes_more_than_six_collaborators():
    """A collaborator is a parameter whose type is a class of ours; numbers, texts and times are not."""
    sources = {path: path.read_text() for floor in ARROWS for path in files(ROOT / floor, ".py")}
    ours = {name for source in sources.values() for name in re.findall(r"^ *class (\w+)", source, re.MULTILINE)}
    many = [
        f"{path.relative_to(ROOT)}:{node.lineno} takes {', '.join(taken)}"
        for path, source in sources.items()
        if "def __init__(" in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        and node.name == "__init__"
        and len(taken := collaborators(node.args, ours)) > MAX_COLLABORATORS
    ]
    assert many == []


def collaborators(arguments: ast.arguments, ours: Collection[str]) -> list[str]:
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [
        parameter.arg
        for parameter in parameters
        if parameter.annotation and not set(_CLASS.findall(ast.unparse(parameter.annotation))).isdisjoint(ours)
    ]
