"""The command `atlas-faults` repeats what it printed, and says what is wrong with anything else."""

import pytest

from tests.faults.__main__ import COMMANDS, read_arguments
from tests.faults.points import read_case
from tests.support import ROOT


@pytest.mark.parametrize(
    ("text", "target"),
    [("worker:drop@ee9311.2", read_case("worker:drop@ee9311.2")), ("seal:", read_case("seal:")), ("20", 20)],
)
def test_a_case_or_the_seed_of_a_storm_is_replayed(text, target):
    assert read_arguments(["replay", text]).target == target


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("replay wroker:drop@ee9311.2", "there is no program 'wroker'; did you mean worker"),
        ("replay worker:smash@ee9311.2", "'smash@ee9311.2' is not a fault at a statement, such as kill_after@3fa1c2.2"),
        ("replay worker:drop@ee9311", "'drop@ee9311' is not a fault at a statement"),
        ("points zzz", "there is no program 'zzz'; `atlas-faults --help` lists the programs"),
        ("run enqueue zzz", "there is no program 'zzz'"),
    ],
)
def test_a_case_or_a_program_that_does_not_exist_is_refused_with_the_reason(capsys, arguments, reason):
    with pytest.raises(SystemExit) as refused:
        read_arguments(arguments.split())
    assert refused.value.code == 2
    assert reason in capsys.readouterr().err


def test_the_help_has_the_commands_of_the_page_and_every_program(capsys):
    with pytest.raises(SystemExit):
        read_arguments(["--help"])
    said = capsys.readouterr().out
    assert "audit-prune" in said
    for line in COMMANDS.strip().splitlines():
        assert line in said
        assert line in (ROOT / "docs" / "reliability.md").read_text()
        read_arguments(line.split("   ")[0].split()[1:])
