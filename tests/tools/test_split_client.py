"""The generated client is split into a file for each table, and a table is loaded when it is first used."""

import ast
from collections.abc import Mapping
from typing import get_args, get_origin

import pytest

from atlas.db.generated_prisma import FOLDER
from atlas.generated import actions, bases, models, types
from atlas.generated.metadata import PRISMA_MODELS
from tools.split_client import split

GENERATED = '''
from typing import TYPE_CHECKING
import json

LIMIT = 3

class _Base:
    pass

class Tenant(_Base):
    """A customer."""

    def text(self) -> str:
        return _quoted(str(LIMIT))

class Job(_Base):
    tenant: 'models.Tenant'

_Job_fields = [1, 2]

def _quoted(text: str) -> str:
    return json.dumps(text)

from . import models
'''


def test_each_class_gets_a_file_with_what_it_needs(tmp_path):
    whole = tmp_path / "models.py"
    whole.write_text(GENERATED)

    split(whole)

    tenant, job = ((tmp_path / f"models_{name}.py").read_text() for name in ("Tenant", "Job"))
    assert [type(one).__name__ for one in ast.parse(job).body] == [
        *("ImportFrom", "Import", "Assign", "ImportFrom", "ImportFrom", "ClassDef", "ImportFrom")
    ]
    assert "from .models import _Base" in tenant
    assert "from .models import _quoted" in tenant
    assert '"""A customer."""' in tenant
    assert "from . import models" in job
    assert "_Job_fields" not in whole.read_text() + job
    assert "class _Base" in whole.read_text()
    assert "class Tenant" not in whole.read_text()


@pytest.mark.long
def test_the_input_of_a_new_job_is_typed_as_json_or_a_plain_dict():
    for created in (types.JobCreateInput, types.JobCreateWithoutRelationsInput):
        assert get_origin(get_args(created.__annotations__["input"])[1]) is Mapping


@pytest.mark.parametrize("name", sorted(PRISMA_MODELS))
def test_every_table_of_the_client_can_be_loaded(name):
    assert getattr(models, name).__prisma_model__ == name
    assert issubclass(getattr(models, name), getattr(bases, f"Base{name}"))
    assert getattr(actions, f"{name}Actions").__init__
    # What validates a row finds the tables that it refers to.
    assert getattr(models, name).model_rebuild(force=True)


def test_a_table_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'atlas.generated.models' has no attribute 'Nothing'"):
        models.Nothing  # noqa: B018
    assert not (FOLDER / "models_Nothing.py").exists()
