"""The argv of a command: what a template may say, and that a value never becomes more than its argument."""

import os
import random
import string
import subprocess
import sys
from uuid import uuid4

import pytest

from atlas.engine.commands.argv import Facts, check_argv, fill_argv
from atlas.engine.commands.environment import check_env, fill_env, inherited_secrets
from atlas.errors import InvalidInput
from tests.programs import require_program
from tests.support import ROOT

FACTS = Facts(uuid4(), "acme", uuid4())
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer"},
        "deep": {"type": "boolean"},
        "kind": {"$ref": "#/$defs/kind"},
        "list": {"type": "array"},
    },
    "required": ["name", "kind"],
    "$defs": {"kind": {"enum": ["a", "b"]}},
}


def reasons(argv):
    return [f"{error.field}: {error.reason}" for error in check_argv(argv, SCHEMA, {})]


def test_each_text_becomes_one_argument_with_its_values_filled_in():
    argv = [
        "/bin/tool",
        "--tenant={{ tenant.id }}/{{tenant.slug}}",
        {"when": "count", "args": ["--count", "{{ count }}"]},
        {"when": "deep", "args": ["--deep"]},
        "--job",
        "{{ job.id }}",
        "--",
        "{{ name }}",
        "{{kind}}-{{name}}",
    ]
    assert check_argv(argv, SCHEMA, {}) == []

    assert fill_argv(argv, {"name": "x y", "kind": "a", "count": 0, "deep": False}, FACTS) == [
        "/bin/tool",
        f"--tenant={FACTS.tenant_id}/acme",
        "--count",
        "0",
        "--job",
        str(FACTS.job_id),
        "--",
        "x y",
        "a-x y",
    ]
    assert fill_argv(argv, {"name": "", "kind": "b", "deep": True}, FACTS)[2:] == [
        "--deep",
        "--job",
        str(FACTS.job_id),
        "--",
        "",
        "b-",
    ]


def test_placeholders_within_a_value_are_not_filled():
    seeded = random.Random(7)
    letters = string.printable + "{}[]$`'\"\\\u202e\U0001f4a9é\x1b"
    for _ in range(2000):
        value = "".join(seeded.choices(letters, k=seeded.randrange(30))) + seeded.choice(
            ["", "{{ job.id }}", "{{name}}", "$(id)", "\n"]
        )
        if value.startswith("-"):
            continue
        filled = fill_argv(["/bin/tool", "--", "{{name}}", "a{{name}}b{{name}}"], {"name": value}, FACTS)
        assert filled == ["/bin/tool", "--", value, f"a{value}b{value}"]


@pytest.mark.parametrize("value", ["-", "--", "-rf", "--config=/etc/passwd", -5, -0.5])
def test_a_value_cannot_begin_an_argument_with_a_dash(value):
    with pytest.raises(InvalidInput, match="begins with a dash"):
        fill_argv(["/bin/tool", "--", "{{name}}"], {"name": value}, FACTS)
    with pytest.raises(InvalidInput, match="begins with a dash"):
        fill_argv(["/bin/tool", "--name", "{{empty}}{{name}}"], {"name": value, "empty": ""}, FACTS)

    assert fill_argv(["/bin/tool", "--name={{name}}"], {"name": value}, FACTS) == ["/bin/tool", f"--name={value}"]


@pytest.mark.parametrize("value", ["a\0b", "x" * 200_000, None, ["a"], {"a": 1}])
def test_a_value_that_cannot_be_an_argument_is_refused(value):
    with pytest.raises(InvalidInput):
        fill_argv(["/bin/tool", "--", "{{name}}"], {"name": value}, FACTS)


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ([], "argv: is not a list"),
        ("/bin/tool", "argv: is not a list"),
        (["tool"], "argv.0: is neither the absolute path of a program nor a name that programs gives a path"),
        (["./tool"], "argv.0: is not the absolute path"),
        (["/opt/../bin/tool"], "argv.0: is not the absolute path"),
        (["/opt//tool"], "argv.0: is not the absolute path"),
        (["{{name}}"], "argv.0: is not the absolute path"),
        (["/bin/{{name}}"], "argv.0: is not the absolute path"),
        (["/bin/sh", "-c", "{{name}}"], "argv.0: is sh, which runs its arguments as commands"),
        (["/usr/bin/env", "tool"], "argv.0: is env"),
        ([{"when": "name", "args": ["/bin/tool"]}], "argv.0: is the program"),
        (["/bin/tool", 5], "argv.1: is neither a text nor"),
        (["/bin/tool", {"when": "name"}], "argv.1: is neither a text nor"),
        (["/bin/tool", {"when": "name", "args": ["x"], "else": ["y"]}], "argv.1: is neither a text nor"),
        (["/bin/tool", {"when": "nothing", "args": ["x"]}], "argv.1.when: names nothing"),
        (["/bin/tool", "{{name}}"], "argv.1: needs a literal --"),
        (["/bin/tool", "run", "{{name}}"], "argv.2: needs a literal --"),
        (["/bin/tool", "--x=1", "{{name}}"], "argv.2: needs a literal --"),
        (["/bin/tool", {"when": "deep", "args": ["--"]}, "{{name}}"], "argv.2: needs a literal --"),
        (["/bin/tool", {"when": "deep", "args": ["--of"]}, "{{name}}"], "argv.2: needs a literal --"),
        (["/bin/tool", "--", "{{nothing}}"], "argv.2: names nothing, which the schema"),
        (["/bin/tool", "--", "{{list}}"], "argv.2: names list, which the schema does not limit"),
        (["/bin/tool", "--", "{{count}}"], "argv.2: names count, which is optional"),
        (["/bin/tool", "--", "{{ name | upper }}"], "argv.2: has a placeholder"),
        (["/bin/tool", "--", "{{ tenant.name }}"], "argv.2: has a placeholder"),
        (["/bin/tool", "--", "{{"], "argv.2: has a placeholder"),
        (["/bin/tool", "--", "a\0b"], "argv.2: contains the character U+0000"),
    ],
)
def test_a_template_that_could_go_wrong_is_refused_when_it_is_saved(argv, reason):
    assert any(found.startswith(reason) for found in reasons(argv)), reasons(argv)


def test_the_environment_is_what_the_definition_lists_and_nothing_else():
    env = {"NAME": "{{name}}", "BOTH": "{{ tenant.slug }}:{{count}}", "PATH": "/usr/bin", "TERM": None, "GONE": None}
    assert check_env(env, SCHEMA) == []

    inherited = {"TERM": "dumb", "SECRET": "x", "LD_PRELOAD": "/evil.so"}
    assert fill_env(env, {"name": "a\nb", "count": 3}, FACTS, inherited) == {
        "NAME": "a\nb",
        "BOTH": "acme:3",
        "PATH": "/usr/bin",
        "TERM": "dumb",
    }
    assert fill_env(env, {"name": "a"}, FACTS, {}) == {"NAME": "a", "PATH": "/usr/bin"}


@pytest.mark.parametrize(
    "env",
    [
        {"LD_PRELOAD": "/x.so"},
        {"ld_library_path": None},
        {"BASH_ENV": None},
        {"PYTHONPATH": "/x"},
        {"PYTHONSTARTUP": None},
        {"IFS": " "},
        {"PERL5LIB": "/x"},
        {"NODE_OPTIONS": "--require=x"},
        {"GIT_SSH_COMMAND": "x"},
        {"PATH": "{{name}}"},
        {"HOME": "/home/{{name}}"},
        {"A-B": "x"},
        {"A=B": "x"},
        {"": "x"},
        {"BASH_FUNC_x%%": "() { :; }"},
        {"A": "{{nothing}}"},
        {"A": "a\0b"},
        {"A": 5},
    ],
)
def test_names_and_values_that_change_how_programs_start_are_refused(env):
    assert check_env(env, SCHEMA)


def test_a_value_that_cannot_be_in_an_environment_is_refused():
    with pytest.raises(InvalidInput, match="holds U\\+0000"):
        fill_env({"NAME": "{{name}}"}, {"name": "a\0b"}, FACTS, {})
    with pytest.raises(InvalidInput, match="not a text, a number or a boolean"):
        fill_env({"NAME": "{{name}}"}, {"name": ["a"]}, FACTS, {})


def test_values_of_the_worker_that_sound_secret_are_known_as_such():
    inherited = {"API_TOKEN": "t0ps3cret", "TERM": "dumb", "DB_PASSWORD": "hunter22"}

    assert inherited_secrets({"API_TOKEN": None, "TERM": None, "NOT_THERE_KEY": None}, inherited) == ["t0ps3cret"]


def test_the_bytes_of_the_environment_are_the_same_in_a_locale_that_is_not_utf8(tmp_path):
    require_program("localedef", "-i", "de_DE", "-f", "ISO-8859-1", str(tmp_path / "de_DE.ISO-8859-1"))
    locale = {"LOCPATH": str(tmp_path), "LC_ALL": "de_DE.ISO-8859-1", "PYTHONUTF8": "0"}
    code = """
from atlas.engine.commands.environment import inherited_secrets, read_environment
print(ascii(read_environment()["TOKEN"]), ascii(inherited_secrets({"TOKEN": None}, read_environment())))"""
    argv = [sys.executable, "-P", "-c", code]
    for value, expected in ((b"caf\xe9", r"'caf\udce9' ['caf\ufffd']"), (b"caf\xc3\xa9", r"'caf\xe9' ['caf\xe9']")):
        env = {**os.environb, **{name.encode(): text.encode() for name, text in locale.items()}, b"TOKEN": value}
        assert subprocess.check_output(argv, env=env, cwd=ROOT, text=True).strip() == expected
