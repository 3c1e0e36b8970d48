"""The pages: what they name exists, their settings are all settings, their examples import what users import."""

import ast
import dataclasses
import re
from collections.abc import Iterator
from runpy import run_path

import pytest

import atlas
from atlas.db.sql_functions import function_files
from atlas.engine.retention.retention import DEFAULT_DAYS
from atlas.settings import Settings
from tests.support import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "AGENTS.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
LIBRARIES = ("asyncpg", "django", "psycopg", "sqlalchemy")
PUBLIC_MODULES = {
    "atlas",
    "atlas.client",
    "atlas.prisma",
    "atlas.testing",
    *(f"atlas.integrations.{name}" for name in LIBRARIES),
    "atlas.integrations.effects",
    *(f"atlas.integrations.effects.{name}" for name in ("graph", "http", "resend", "s3", "stripe")),
}


def test_the_page_of_settings_has_every_setting_and_its_default():
    rows = re.findall(r"^\| `([A-Z_]+)` \|.*\| (.+) \|$", (ROOT / "docs" / "settings.md").read_text(), re.MULTILINE)
    fields = {
        field.name.upper(): field.default for field in dataclasses.fields(Settings) if field.name != "agent_emails"
    }

    assert sorted(name for name, _ in rows) == sorted(fields)
    for name, shown in rows:
        if fields[name] is not None:
            assert shown == f"`{fields[name]}`", name


def test_the_page_of_settings_has_every_age_of_retention():
    _, _, section = (ROOT / "docs" / "settings.md").read_text().partition("## Retention of a tenant\n")
    rows = re.findall(r"^\| `([a-z]+)` \|.*\| `(\d+)` \|$", section.partition("\n## ")[0], re.MULTILINE)

    assert {kind: int(days) for kind, days in rows} == DEFAULT_DAYS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_another_page_leads_somewhere(page):
    links = [link for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()) if "://" not in link]

    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_import_from_the_root_alone(page):
    named = [
        (node.module, name.name)
        for example in examples(page.read_text())
        for node in ast.walk(example)
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.split(".")[0] == "atlas"
        for name in node.names
    ]

    assert [module for module, _ in named if module not in PUBLIC_MODULES] == []
    assert [name for module, name in named if module == "atlas" and name not in atlas.__all__] == []


def examples(page: str) -> Iterator[ast.Module]:
    """The Python of a page. What stands there without a function around it may await."""
    for text in re.findall(r"^ *```python\n(.*?)^ *```", page, re.MULTILINE | re.DOTALL):
        yield compile(text, "page", "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_folder_file_and_target_of_the_agents_page_exists():
    page = (ROOT / "AGENTS.md").read_text()
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"`([^`]+)`", page)
    paths = [name.split()[0] for name in named if re.fullmatch(r"[a-z_/]+/|[A-Za-z_/]+\.(?:py|md|prisma|sql)", name)]

    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / path).exists() and path not in ("sql/", "functions/")] == []
    assert set(re.findall(r"`make ([a-z]+)`", page)) <= set(targets)
    folders = [folder.parent.name for folder in ROOT.glob("*/__init__.py") if folder.parent.name != "bench"]
    assert [folder for folder in folders if f"{folder}/" not in paths] == []


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
NAMED = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|sql))(?::([A-Za-z_]+))?`")


@pytest.mark.parametrize(("file", "name"), NAMED.findall(ARCHITECTURE))
def test_every_file_and_function_of_the_architecture_exists(file, name):
    assert (ROOT / file).is_file()
    if name:
        tree = ast.parse((ROOT / file).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, DEFINITIONS)}


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def test_the_lock_order_of_the_architecture_names_every_lock():
    _, _, section = ARCHITECTURE.partition("## Lock order\n")
    migration = next((ROOT / "migrations").glob("*_foundation/migration.sql")).read_text()
    [classes] = re.findall(r"create type (?:atlas\.)?lock_name as enum \(([^)]*)\)", migration)

    for name in re.findall(r"'(\w+)'", classes):
        assert f"`{name}`" in section.partition("\n## ")[0]


def test_the_architecture_has_every_sql_function_once():
    _, _, section = ARCHITECTURE.partition("## SQL functions\n")
    listed = re.findall(r"`([a-z_]+)`", section.partition("\n## ")[0].partition("| --- | --- |")[2])

    assert sorted(listed) == sorted(path.stem for path in function_files())


def test_the_reference_pages_are_written_from_the_code_of_today():
    for name, text in run_path(str(ROOT / "docs" / "write_reference.py"))["pages"]().items():
        assert (ROOT / "docs" / name).read_text() == text, "run `python docs/write_reference.py`"


def test_the_map_is_drawn_from_the_imports_of_today():
    drawn = run_path(str(ROOT / "docs" / "draw_map.py"))["draw"]()

    assert (ROOT / "docs" / "map.svg").read_text() == drawn, "run `python docs/draw_map.py`"
