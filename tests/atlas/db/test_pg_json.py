"""What Postgres refuses is replaced, and nothing else."""

from unittest.mock import Mock

import orjson
import pytest

from atlas.db.pg_json import TooLarge, holds_nul, stored_json, stored_text

BACKSLASH = "\\"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a\0b", "a\ufffdb"),
        ("\0\0", "\ufffd\ufffd"),
        (f"C:{BACKSLASH}u0000", f"C:{BACKSLASH}u0000"),
        (f"{BACKSLASH}\0", f"{BACKSLASH}\ufffd"),
        (f"{BACKSLASH * 2}u0000\0", f"{BACKSLASH * 2}u0000\ufffd"),
        ("caf\udce9", "caf\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
    ],
)
def test_a_text_is_kept_but_for_what_postgres_refuses(given, kept):
    assert stored_text(given) == kept
    assert orjson.loads(stored_json({"a": [given]})) == {"a": [kept]}


def test_a_nul_is_distinguished_from_an_escaped_backslash():
    assert holds_nul(orjson.dumps({"a": "\0"}).decode())
    assert not holds_nul(orjson.dumps({"a": f"{BACKSLASH}u0000"}).decode())


@pytest.mark.parametrize(
    "value",
    [
        {"x": "a" * 900},
        ["a"] * 850,
        {"rows": [{"cells": ["a" * 30, "b" * 30]} for _ in range(20)]},
        [*({"x": "a" * 9} for _ in range(90)), "\udce9"],
    ],
)
def test_what_is_far_larger_than_the_limit_is_refused_before_it_is_converted(value, monkeypatch):
    monkeypatch.setattr("atlas.db.pg_json.orjson", Mock(dumps=Mock(side_effect=TypeError)))
    monkeypatch.setattr("atlas.db.pg_json._repaired", None)
    with pytest.raises(TooLarge, match="more than 800"):
        stored_json(value, limit=100)


def test_what_only_seems_to_be_far_larger_is_stored():
    value = [["a" * 100] * 3, *([] for _ in range(100))]
    assert stored_json(value, limit=1000) == orjson.dumps(value).decode()


def test_what_is_a_little_larger_than_the_limit_is_refused_with_its_size():
    with pytest.raises(TooLarge, match="^208$"):
        stored_json({"x": "a" * 200}, limit=100)
