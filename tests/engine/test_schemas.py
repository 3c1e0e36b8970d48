"""Inputs and schemas: small mistakes are all named, and a large wrong input is refused as quickly as a right one."""

import time

import pytest
from pydantic import TypeAdapter, ValidationError

from atlas.engine.jobs.handlers.types import field_errors
from atlas.engine.schemas import check_schema, is_quick, schema_errors

WORDS = {"properties": {"words": {"items": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}}}}


def test_every_mistake_of_a_small_input_is_named():
    found = schema_errors(WORDS, {"words": ["a", 1.5, 1, None, True]})

    assert [one.field for one in found] == ["words.1", "words.4"]


@pytest.mark.parametrize("items", [60_000, 1000])
def test_the_first_mistake_of_a_large_input_is_named_soon(items):
    wrong = {"words": ["a", *[1.5] * items]}
    schema_errors(WORDS, {"words": []})
    began = time.process_time()
    found = schema_errors(WORDS, wrong)

    assert [one.field for one in found] == ["words.1"]
    assert time.process_time() - began < 0.5  # All 60,000 take 3 s.


def test_a_model_that_finds_too_many_mistakes_says_how_many():
    with pytest.raises(ValidationError) as few:
        TypeAdapter(list[str]).validate_python([1, 2])
    with pytest.raises(ValidationError) as many:
        TypeAdapter(list[str]).validate_python([1] * 60_000)

    assert [error.field for error in field_errors(few.value)] == ["0", "1"]
    assert str(field_errors(many.value)[0]) == "has 60,000 mistakes, too many to name; send less"


def tower(levels):
    """Each level refers to the next one twice."""
    twice = [{"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(levels)]
    defs = {f"d{n}": part for n, part in enumerate([*twice, {"type": "string"}])}
    return {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs}


@pytest.mark.parametrize("levels", [14, 40, 600])
def test_a_schema_whose_references_multiply_is_refused(levels):
    [error] = check_schema(tower(levels), field="inputSchema")

    assert str(error) == "inputSchema: has more than 20,000 parts, where a reference is all that it refers to"
    assert check_schema(tower(3), field="inputSchema") == []


TREE = {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"properties": {"of": {"items": {"$ref": "#/$defs/a~1b"}}}}}}


def test_what_is_checked_within_milliseconds_depends_on_schema_and_input():
    assert check_schema(TREE, field="inputSchema") == []
    assert is_quick(WORDS, {"words": ["a"] * 1000})
    assert not is_quick(WORDS, {"words": ["a"] * 60_000})
    assert is_quick(tower(5), {"a": "b"})
    assert not is_quick(TREE, {"of": []})
    assert not is_quick({"description": "x" * 10_000}, {})
