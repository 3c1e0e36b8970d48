"""Examples for the OpenAPI description: those that models have, and for the others one made of their properties."""

from collections.abc import Mapping
from typing import Any

from atlas.api.openapi.values import EXAMPLES

REFERENCE = "#/components/schemas/"
BY_FORMAT = {"uuid": "01a1e0c2-7b3d-7c4e-8f90-123456789abc", "date-time": "2026-11-16T07:00:00.000000Z"}
BY_TYPE: dict[str, Any] = {"string": "text", "number": 1.5, "boolean": True, "object": {}, "null": None}


def add_examples(schemas: Mapping[str, dict[str, Any]]) -> None:
    """Give an example to every model that has none."""
    for name, schema in schemas.items():
        if "properties" in schema and "examples" not in schema:
            schema["examples"] = [example_of({"$ref": REFERENCE + name}, schemas)]


def example_of(schema: Mapping[str, Any], schemas: Mapping[str, Mapping[str, Any]], name: str = "") -> Any:
    """A value that fits a schema. An optional value is null, unless its name has an example."""
    match schema:
        case {"$ref": reference}:
            model = reference.removeprefix(REFERENCE)
            return EXAMPLES[model] if model in EXAMPLES else example_of(schemas[model], schemas, name)
        case {"examples": [first, *_]} | {"const": first} | {"enum": [first, *_]}:
            return first
        case {"properties": properties}:
            return {key: example_of(subschema, schemas, key) for key, subschema in properties.items()}
        case _ if name in EXAMPLES:
            return EXAMPLES[name]
        case {"anyOf": branches} | {"oneOf": branches}:
            return None if {"type": "null"} in branches else example_of(branches[0], schemas, name)
        case {"type": "array", "items": items}:
            return [example_of(items, schemas, name)]
        case {"type": "integer"}:
            return schema.get("minimum", 1)
        case _:
            return BY_FORMAT.get(schema.get("format", ""), BY_TYPE.get(schema.get("type", "object"), {}))
