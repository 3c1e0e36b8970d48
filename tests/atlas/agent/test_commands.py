"""A host's allow-list: an argv for each job type, and values that become exactly one argument."""

import pytest

from atlas.agent import AllowedCommands
from atlas.errors import AtlasError, InvalidInput, SettingsError
from tests.support import ROOT

FACTS = {"job.id": "j-1"}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "is not an object of job types"),
        ({"x": "/bin/true"}, "x: is not a list of texts"),
        ({"x": []}, "x: is not a list of texts"),
        ({"x": ["/bin/true", 1]}, "x: is not a list of texts"),
        ({"x": ["true"]}, "x.0: is not the absolute path"),
        ({"x": ["/usr/../bin/true"]}, "x.0: is not the absolute path"),
        ({"x": ["{{ program }}"]}, "x.0: is not the absolute path"),
        ({"x": ["/bin/sh", "-c", "{{ line }}"]}, "x.0: is sh, which runs its arguments as commands"),
        ({"x": ["/bin/true", "--name={{ name }}"]}, "x.1: names neither"),
        ({"x": ["/bin/true", "{{ tenant.slug }}"]}, "x.1: names neither"),
        ({"x": ["/bin/true", "a\0b"]}, "x.1: contains the character"),
    ],
)
def test_an_allow_list_that_could_be_misused_is_refused(document, reason):
    with pytest.raises(InvalidInput, match=reason):
        AllowedCommands.of(document)


def test_the_example_can_be_read():
    assert "SERVER_RESTART" in AllowedCommands.load(ROOT / "examples" / "agent-commands.json").templates


def test_a_missing_file_is_named(tmp_path):
    (tmp_path / "half").write_text("{")
    with pytest.raises(SettingsError, match="missing cannot be read: No such file"):
        AllowedCommands.load(tmp_path / "missing")
    with pytest.raises(SettingsError, match="half is not JSON"):
        AllowedCommands.load(tmp_path / "half")


def test_each_text_becomes_exactly_one_argument():
    commands = AllowedCommands.of({"x": ["/bin/true", "--", "{{ name }}", "{{job.id}}", "literal"]})
    for value, shown in [
        ("a b; rm -rf / $(x)", "a b; rm -rf / $(x)"),
        (7, "7"),
        (True, "true"),
        ("{{ job.id }}", "{{ job.id }}"),
    ]:
        assert commands.argv("x", {"name": value}, FACTS) == ["/bin/true", "--", shown, "j-1", "literal"]


@pytest.mark.parametrize("value", ["-rf", "--", "a\0b", "\ud800", "x" * 200_000, None, ["a"], {"a": 1}])
def test_a_value_that_is_no_argument_is_refused(value):
    with pytest.raises(InvalidInput, match="The payload is not valid: name"):
        AllowedCommands.of({"x": ["/bin/true", "{{ name }}"]}).argv("x", {"name": value}, FACTS)


def test_a_fact_is_never_taken_from_the_payload():
    commands = AllowedCommands.of({"x": ["/bin/true", "{{ server_instance.id }}"]})
    for payload in ({"name": "a"}, {"server_instance.id": "/any/other"}):
        with pytest.raises(InvalidInput, match="server_instance.id: is missing"):
            commands.argv("x", payload, FACTS)
    with pytest.raises(AtlasError, match="no command for job type y"):
        commands.argv("y", {}, FACTS)
