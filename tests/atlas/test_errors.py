"""Errors: a cause and a remedy, and a tree that the module's first words tell truly."""

import inspect
import re

import pytest

from atlas import errors
from atlas.errors import AtlasError, DedupeConflict, FieldError, InvalidInput, LeaseLost, NotFound


def test_the_tree_at_the_top_of_the_module_is_the_tree_of_its_classes():
    tree = errors.__doc__ or ""
    drawn: dict[str, str] = {}
    above: dict[int, str] = {}
    for line in tree.splitlines():
        found = re.match(r"([│├└─ ]*)([A-Z][A-Za-z]+)  +\S", line)
        if found:
            depth = len(found[1]) // 4
            above[depth] = found[2]
            drawn[found[2]] = above[depth - 1] if depth else "Exception"
    built = {
        name: member.__base__.__name__
        for name, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, AtlasError)
    }
    assert drawn == built


def test_an_error_reads_as_its_cause_and_its_remedy():
    assert str(AtlasError("It broke.", remedy="Mend it.")) == "It broke. Mend it."
    assert str(AtlasError("It broke.")) == "It broke."


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NotFound("tenant", "acme"), "There is no tenant acme."),
        (DedupeConflict("k", 7), "Dedupe key 'k' is held by job 7 with another input."),
        (LeaseLost("j", 2), "Job j, attempt 2, is no longer leased to this worker."),
    ],
)
def test_each_error_has_its_own_message(error, words):
    assert error.message == words


def test_invalid_input_names_fields_and_reasons_and_keeps_all_of_them():
    wrong = [FieldError(f"f{n}", "is wrong") for n in range(9)]
    error = InvalidInput("The input", [FieldError("", "must be an object"), *wrong])

    assert error.message.startswith("The input is not valid: must be an object; f0: is wrong;")
    assert len(error.errors) == 10
