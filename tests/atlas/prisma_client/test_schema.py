"""What the reader makes of a schema.prisma."""

from pathlib import Path

import pytest

from atlas.generated.metadata import PRISMA_MODELS, RELATIONAL_FIELD_MAPPINGS
from atlas.prisma_client import load_schema, packaged_schema
from atlas.prisma_client.read_schema import parse_schema
from atlas.prisma_client.schema import Default, Schema
from tests.atlas.prisma_client.workshop import SCHEMA

REPOSITORY = Path(__file__).parents[3]


def fields_of(schema: Schema) -> dict[str, tuple[object, ...]]:
    return {
        field.label: (model.table, field.column, field.pg_type, field.modifier, field.required, field.default)
        for model in schema.models.values()
        for field in model.fields.values()
    }


def test_the_packaged_schema_says_what_the_repository_says():
    assert fields_of(packaged_schema()) == fields_of(load_schema(REPOSITORY / "schema.prisma"))


def test_the_reader_finds_every_model_and_relation_of_the_generated_client():
    models = packaged_schema().models
    assert models.keys() == PRISMA_MODELS
    relations = {
        name: {field.name: field.relation.target for field in model.fields.values() if field.relation}
        for name, model in models.items()
    }
    assert relations == RELATIONAL_FIELD_MAPPINGS


@pytest.mark.parametrize(
    ("field", "column", "pg_type", "modifier", "is_list", "required"),
    [
        ("id", "id", "int4", "", False, True),
        ("code", "code", "varchar", "(20)", False, True),
        ("small", "small", "int2", "", False, False),
        ("single", "single", "float4", "", False, False),
        ("price", "price", "numeric", "(12,3)", False, False),
        ("at", "at", "timestamp", "(3)", False, False),
        ("atz", "atz", "timestamptz", "(6)", False, False),
        ("doc", "doc", "jsonb", "", False, False),
        ("textDoc", "text_doc", "json", "", False, False),
        ("odd", 'odd "column"; drop', "text", "", False, False),
        ("color", "color", "Paint", "", False, False),
        ("tags", "tags", "text", "", True, True),
        ("refs", "refs", "uuid", "", True, True),
        ("secret", "secret", "tsvector", "", False, False),
    ],
)
def test_a_field_is_read_with_its_column_and_type(field, column, pg_type, modifier, is_list, required):
    found = SCHEMA.models["Gadget"].fields[field]
    assert (found.column, found.pg_type, found.modifier) == (column, pg_type, modifier)
    assert (found.is_list, found.required) == (is_list, required)


@pytest.mark.parametrize(
    ("written", "default"),
    [
        ("now()", Default("now", "")),
        ("dbgenerated(\"f('x', 1)\")", Default("dbgenerated", "f('x', 1)")),
        ("uuid(7)", Default("uuid", "7")),
        ('"a \\"quoted\\" // text"', Default(None, 'a "quoted" // text')),
        ("true", Default(None, "true")),
        ("-1.5", Default(None, "-1.5")),
        ("[1, 2]", Default(None, "[1, 2]")),
        ("red", Default(None, "red")),
    ],
)
def test_a_default_is_read_as_a_function_or_a_value(written, default):
    schema = parse_schema(f'model A {{\n  id Int @id\n  x String @default({written}) @map("y") // z\n}}\n')
    assert schema.models["A"].fields["x"].default == default
    assert schema.models["A"].fields["x"].column == "y"


def test_keys_come_with_the_identity_first():
    keys = {name: [(key.name, key.fields) for key in model.keys] for name, model in SCHEMA.models.items()}
    assert keys["Gadget"] == [("id", ("id",)), ("code", ("code",))]
    assert keys["Person"] == [("id", ("id",)), ("who", ("name", "key")), ("email", ("email",))]
    assert keys["Pair"] == [("left_right", ("left", "right"))]
    assert keys["Mark"] == [("id", ("id",)), ("left_right", ("left", "right"))]


def test_a_relation_is_known_from_both_sides():
    person = SCHEMA.models["Person"].fields
    assert person["boss"].relation == person["boss"].relation.__class__("Person", ("bossId",), ("id",), True)
    assert person["team"].relation == person["boss"].relation.__class__("Person", ("id",), ("bossId",), False)
    assert person["badge"].relation is not None
    assert person["badge"].relation.theirs == ("personId",)
    assert person["clubs"].relation is not None
    assert person["clubs"].relation.own == ()


def test_enums_know_the_labels_of_the_database():
    color = SCHEMA.enums["Color"]
    assert color.type_name == "Paint"
    assert color.labels == {"red": "red", "green": "GREEN", "blue": "it's {blue}"}


def test_what_is_ignored_in_the_schema_is_not_read():
    schema = parse_schema(
        "model A {\n  id Int @id\n  b Int @ignore\n}\nmodel C {\n  id Int @id\n\n  @@ignore\n}\n"
        "view V {\n  id Int @unique\n  b Int @ignore\n}\n"
    )
    assert {name: model.is_view for name, model in schema.models.items()} == {"A": False, "V": True}
    assert schema.models["A"].fields.keys() == schema.models["V"].fields.keys() == {"id"}
