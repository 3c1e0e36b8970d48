"""Durations as people type them."""

from datetime import timedelta

import pytest
import typer

from atlas.cli.terminal.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("90s", timedelta(seconds=90)),
        ("10m", timedelta(minutes=10)),
        ("2h", timedelta(hours=2)),
        ("30d", timedelta(days=30)),
        ("1w", timedelta(weeks=1)),
        ("1h30m", timedelta(minutes=90)),
    ],
)
def test_a_duration_is_a_number_with_a_unit_or_several(text, meant):
    assert parse_duration(text) == meant


@pytest.mark.parametrize("text", ["", "10", "h", "1.5h", "-1h", "2 h", "0s", "1y", "٣h", "36501d", "999999999999w"])
def test_anything_else_is_wrong_usage(text):
    with pytest.raises(typer.BadParameter):
        parse_duration(text)
