"""The check of SQL callers' inputs against a JSON Schema: it never refuses what the check in Python accepts."""

import orjson
import pytest

from atlas.engine.schemas import schema_errors

PERSON = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5},
        "age": {"anyOf": [{"type": "integer", "minimum": 0, "exclusiveMaximum": 150}, {"type": "null"}]},
        "kind": {"enum": ["a", 1, None]},
        "fixed": {"const": {"x": 1}},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "pair": {"prefixItems": [{"type": "string"}, {"type": "number"}], "items": False},
        "friend": {"$ref": "#"},
        "home": {"$ref": "#/$defs/Place"},
        "either": {"oneOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}]},
        "both": {"allOf": [{"required": ["a"]}, {"properties": {"a": {"type": ["string", "boolean"]}}}]},
        "open": {"type": "object", "additionalProperties": {"type": "number", "exclusiveMinimum": 0}},
        "some": {"type": "object", "minProperties": 1, "maxProperties": 1},
    },
    "$defs": {"Place": {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]}},
}
FITTING = [
    {"name": "ann"},
    {"name": "ann", "age": 0},
    {"name": "ann", "age": 7.0},
    {"name": "ann", "age": None, "kind": None},
    {"name": "ann", "kind": 1, "fixed": {"x": 1}},
    {"name": "ann", "tags": ["a", "b"], "pair": ["a", 1.5]},
    {"name": "ann", "friend": {"name": "bob", "friend": {"name": "c"}}},
    {"name": "ann", "home": {"street": "x", "more": []}},
    {"name": "ann", "either": {"b": 1}, "both": {"a": True}},
    {"name": "ann", "open": {"x": 0.1}, "some": {"x": None}},
    {"name": "ünïté"},
]
WRONG = {
    "input.name": [{}, {"name": ""}, {"name": "too long"}, {"name": 1}, {"name": None}],
    "input.age": [
        {"name": "a", "age": -1},
        {"name": "a", "age": 150},
        {"name": "a", "age": 1.5},
        {"name": "a", "age": "1"},
    ],
    "input.other": [{"name": "a", "other": 1}],
    "input.kind": [{"name": "a", "kind": "b"}, {"name": "a", "kind": [1]}],
    "input.fixed": [{"name": "a", "fixed": {"x": 1, "y": 2}}],
    "input.tags": [{"name": "a", "tags": []}, {"name": "a", "tags": ["a", "b", "c"]}, {"name": "a", "tags": {}}],
    "input.tags.1": [{"name": "a", "tags": ["a", 1]}],
    "input.pair.1": [{"name": "a", "pair": ["a", "b"]}],
    "input.pair.2": [{"name": "a", "pair": ["a", 1, 2]}],
    "input.friend.friend.name": [{"name": "a", "friend": {"name": "b", "friend": {}}}],
    "input.home.street": [{"name": "a", "home": {}}],
    "input.either": [{"name": "a", "either": {"c": 1}}],
    "input.both.a": [{"name": "a", "both": {"a": 1}}, {"name": "a", "both": {}}],
    "input.open.x": [{"name": "a", "open": {"x": 0}}, {"name": "a", "open": {"x": "y"}}],
    "input.some": [{"name": "a", "some": {}}, {"name": "a", "some": {"x": 1, "y": 2}}],
}


async def mistake(conn, schema, value):
    texts = [orjson.dumps(one).decode() for one in (schema, value)]
    return await conn.fetchrow("select * from atlas.schema_mistake($1::text::jsonb, $2::text::jsonb)", *texts)


async def test_what_fits_is_accepted(conn):
    for value in FITTING:
        assert schema_errors(PERSON, value) == []
        assert await mistake(conn, PERSON, value) is None, value


@pytest.mark.parametrize("field", WRONG)
async def test_what_does_not_fit_is_refused_at_its_field(conn, field):
    for value in WRONG[field]:
        assert schema_errors(PERSON, value), value
        assert (await mistake(conn, PERSON, value))["field"] == field, value


async def test_what_sql_cannot_check_alike_is_left_to_the_worker(conn):
    schema = {
        "properties": {
            "a": {"pattern": r"^\p{L}+$"},
            "b": {"format": "uuid"},
            "c": {"not": {"type": "string"}},
            "d": {"oneOf": [{"format": "email"}, {"format": "uuid"}]},
            "e": {"$ref": "#/$defs/nowhere"},
        }
    }
    assert await mistake(conn, schema, dict.fromkeys("abcde", "1")) is None


async def test_every_schema_beside_every_value_is_judged_no_stricter_than_in_python(conn):
    schemas = [
        *PERSON["properties"].values(),
        {"type": ["integer", "null"]},
        {"maximum": 3},
        {"type": "boolean"},
        {},
        {"required": ["a"]},
    ]
    values = [
        None,
        True,
        0,
        1,
        -3,
        2.5,
        151,
        "",
        "a",
        "abcdef",
        [],
        ["a"],
        ["a", 1],
        [1, 2, 3],
        {},
        {"a": 1},
        {"x": 1},
        {"name": "ann"},
    ]
    for schema in schemas:
        whole = {"properties": {"it": schema}, "$defs": PERSON["$defs"]}
        for value in values:
            refused = await mistake(conn, whole, {"it": value}) is not None
            assert refused == bool(schema_errors(whole, {"it": value})), (schema, value)
