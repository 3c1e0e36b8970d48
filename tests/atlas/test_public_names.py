"""What users import from the root: every name is there, and none is loaded before it is used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import atlas


@pytest.mark.parametrize("name", atlas.__all__)
def test_every_public_name_can_be_imported_from_the_root(name):
    assert getattr(atlas, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        atlas.nothing  # noqa: B018


def test_type_checkers_see_the_same_names_from_the_same_modules():
    tree = ast.parse(Path(atlas.__file__).read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {name.name: node.module for node in block.body for name in node.names}  # type: ignore[attr-defined]

    assert seen == atlas._HOME_OF
    assert sorted(seen) == sorted(atlas.__all__)


def test_a_renamed_name_works_and_warns_once():
    code = """
import warnings, atlas
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert atlas.EnqueueTerms is atlas.EnqueueTerms is atlas.NewJobOptions
print([(str(one.message), one.category.__name__, one.filename) for one in caught])"""
    message = "atlas.EnqueueTerms is now atlas.NewJobOptions. The next minor version removes atlas.EnqueueTerms."
    printed = subprocess.check_output([sys.executable, "-c", code], text=True).strip()

    assert ast.literal_eval(printed) == [(message, "DeprecationWarning", "<string>")]


def test_to_enqueue_loads_no_more_than_the_driver():
    """Pydantic and httpx would double the time of the import."""
    heavy = "asyncpg, httpx, pydantic, pydantic_core, rich, structlog, websockets"
    loaded = (
        f"import sys; from atlas import enqueue; print([name for name in '{heavy}'.split(', ') if name in sys.modules])"
    )

    assert subprocess.check_output([sys.executable, "-c", loaded], text=True).strip() == "['asyncpg']"


@pytest.mark.parametrize("module", ["atlas", "atlas.client", "atlas.cli.main"])
def test_the_root_the_client_and_the_command_line_do_not_load_the_engine(module):
    loaded = f"import sys, {module}; print([name for name in sys.modules if name.startswith('atlas.engine')])"

    assert subprocess.check_output([sys.executable, "-c", loaded], text=True).strip() == "[]"
