"""Types of fields that many request bodies share."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    Strict,
    StrictBool,
    StrictInt,
    StringConstraints,
    model_validator,
)
from pydantic_core import CoreSchema

from atlas.bounds import MOST_RETRIES
from atlas.engine.synonyms import ONE_MORE, by_own_names, synonyms_of

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
# Up to 32 digits, with or without dashes.
ID_PREFIX = r"^[0-9a-fA-F]{1,8}(-?[0-9a-fA-F]{1,4}){0,3}(-?[0-9a-fA-F]{1,12})?$"
_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _timestamp(value: Any) -> Any:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _TIMESTAMP.fullmatch(value):
        raise ValueError("must be a timestamp with its zone, such as 2026-11-15T02:14:07Z")
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("is not a date of the calendar") from None


def _id(value: Any) -> Any:
    if isinstance(value, UUID):
        return value
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError("must be an id, such as 0192f0c1-2b3c-7d4e-8f90-123456789abc")
    return UUID(value)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


# Text only: no numbers as timestamps, and no other spelling of an id.
Timestamp = Annotated[datetime, BeforeValidator(_timestamp)]
Id = Annotated[UUID, BeforeValidator(_id)]
Flag = StrictBool
# JSON has one kind of number: 3.0 is a whole one, "3" is none.
Whole = Annotated[StrictInt, BeforeValidator(_whole)]
Number = Annotated[float, Strict()]
Spend = Annotated[Whole, Field(ge=0, le=2_000_000_000, description="What it may cost, for policy to see.")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Text = Annotated[str, StringConstraints(max_length=2000)]
Document = dict[str, Any]


class Body(BaseModel):
    """A request body. Unknown names are refused: they are usually misspelt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def given(self) -> dict[str, Any]:
        """The fields that the caller sent."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class SynonymBody(Body):
    """A body whose fields may be sent under other names, those of `engine/synonyms.py`."""

    own_names: ClassVar[frozenset[str]] = frozenset()
    synonyms: ClassVar[dict[str, str]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        cls.own_names, cls.synonyms = frozenset(cls.model_fields), synonyms_of(cls.model_fields, cls.__name__)

    @model_validator(mode="before")
    @classmethod
    def _take_synonyms(cls, value: Any) -> Any:
        if not isinstance(value, dict) or cls.own_names.issuperset(value):
            return value
        return by_own_names(value, cls.synonyms)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The description with each synonym as a property of its own, which is deprecated."""
        reference = handler(core_schema)
        properties = handler.resolve_ref_schema(reference)["properties"]
        for name, field in cls.synonyms.items():
            properties[name] = synonym_of(field, name, properties[field])
        return reference


def synonym_of(field: str, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a synonym: that of its field, or one more."""
    counted = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MOST_RETRIES + 1}, {"type": "null"}]}
    shown = counted if name in ONE_MORE else {key: schema[key] for key in schema if key not in ("title", "default")}
    about = f"`{field}`, counting the first attempt too." if name in ONE_MORE else f"A synonym of `{field}`."
    return {**shown, "description": about, "deprecated": True}
