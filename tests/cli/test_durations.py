"""Durations as people type them."""

from datetime import timedelta

import pytest
import typer

from atlas.cli.terminal.durations import parse_duration, parse_duration_or_zero


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


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("0s", 0), ("0m", 0), ("5m", 300)])
def test_where_none_at_all_is_a_choice_zero_is_a_duration(text, seconds):
    assert parse_duration_or_zero(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "00", "10", "-0s", "36501d"])
def test_where_zero_is_a_duration_a_number_without_a_unit_still_is_none(text):
    with pytest.raises(typer.BadParameter):
        parse_duration_or_zero(text)
