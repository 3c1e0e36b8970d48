"""What Postgres refuses is replaced, and nothing else."""

import orjson
import pytest

from atlas.db.pg_json import holds_nul, stored_json, stored_text

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
