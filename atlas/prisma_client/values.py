"""Values on their way to Postgres and back.

Outward, a value is checked against its field and becomes what asyncpg sends for the parameter's type;
the parameter carries that type as a cast, so that Postgres never has to guess. Homeward, columns are cast
in the select list to what the generated pydantic models accept as it stands (UUIDs and JSON as text, bytes
as base64), so that a row needs little work in Python, and the same columns can travel inside JSON.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any
from uuid import UUID

from atlas.db.pg_json import read_stored
from atlas.db.schema import qualified
from atlas.generated.fields import Base64, Json
from atlas.prisma_client.errors import UnsupportedQuery, inconsistent_value, missing_value, wrong_value
from atlas.prisma_client.schema import Enum, Field

EQUALITY = frozenset({"equals", "not"})
SETS = EQUALITY | {"in", "not_in"}
ORDERED = SETS | {"lt", "lte", "gt", "gte"}
TEXT = ORDERED | {"contains", "startswith", "endswith", "mode"}

# Both cases spelled out: a pattern that ignores case takes twice as long, on every lookup by key.
_HEX = "[0-9a-fA-F]"
_UUID = re.compile(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}")


class Unfit(Exception):
    """A value that its type cannot take; says what it takes."""


class UnfitText(Unfit):
    """Text that does not spell a value of its type."""


@dataclass(frozen=True, slots=True, eq=False)
class Codec:
    """How one type is written as a parameter, read as a column, and which filters make sense on it."""

    cast: str
    list_cast: str
    encode: Callable[[Any], Any]
    operators: frozenset[str]
    select: str = "{}"  # the column as models read it
    compare: str = "{}"  # the column as comparisons take it
    text: str = "{}"  # the column as `like` takes it
    decode: Callable[[Any], Any] | None = None  # makes a selected value what models hold

    def read(self, value: Any) -> Any:
        """A selected value as Python holds it."""
        return value if value is None or self.decode is None else self.decode(value)


def encode(codec: Codec, value: Any, label: str) -> Any:
    """The value as asyncpg sends it; `label` names the field in the refusal of a wrong one."""
    if value is None:
        raise missing_value(label, "cannot be null here")
    try:
        return codec.encode(value)
    except UnfitText as unfit:
        raise inconsistent_value(label, str(unfit), value) from None
    except Unfit as unfit:
        raise wrong_value(label, str(unfit), value) from None


def encode_list(codec: Codec, values: Any, label: str) -> list[Any]:
    """A list of values, none of them null."""
    if not isinstance(values, list | tuple | set | frozenset):
        raise wrong_value(label, "a list", values)
    return [encode(codec, value, label) for value in values]


@cache
def codec_of(field: Field) -> Codec:
    """The codec of a scalar field's elements."""
    if field.enum is not None:
        return _enum_codec(field.enum)
    make = _CODECS.get(field.pg_type)
    if make is None:
        raise UnsupportedQuery(f"the type of {field.label}, {field.native or field.type}")
    return make(f"{field.pg_type}{field.modifier}")


def select_sql(field: Field, column: str) -> str:
    """The column as the models read it."""
    codec = codec_of(field)
    if not field.is_list:
        return codec.select.format(column)
    if codec.select == "{}":
        return column
    # An unset list stays null; the models read it as empty.
    element = codec.select.format("e")
    return (
        f"case when {column} is not null then"
        f" array(select {element} from unnest({column}) with ordinality u(e, n) order by n) end"
    )


def compare_sql(field: Field, column: str) -> str:
    """The column as comparisons, orders and groups take it."""
    return column if field.is_list else codec_of(field).compare.format(column)


def dump_json(value: Json) -> str:
    """The JSON text of what a Json wrapper holds."""
    try:
        return json.dumps(value.data, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise Unfit(f"JSON ({error})") from None


def as_timestamp(value: Any) -> datetime:
    """A timestamp in UTC; one without a zone is in UTC already, as in Prisma."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise Unfit("a datetime") from None
    if not isinstance(value, datetime):
        raise Unfit("a datetime")
    try:
        return value.astimezone(UTC) if value.tzinfo is not None else value.replace(tzinfo=UTC)
    except OverflowError:
        raise Unfit("a datetime whose year in UTC is 1 to 9999") from None


def as_bytes(value: Any) -> bytes:
    """The bytes inside a Base64 wrapper."""
    if not isinstance(value, Base64):
        raise Unfit("Base64, as Base64.encode(b'…') makes it")
    try:
        return b64decode(str(value), validate=True)
    except ValueError:
        raise Unfit("Base64 of valid base64 text; Base64.encode(b'…') makes it") from None


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise Unfit("a str")
    return value


def _as_uuid(value: Any) -> Any:
    if isinstance(value, str):
        if _UUID.fullmatch(value) is None:
            raise UnfitText("a UUID")
    elif not isinstance(value, UUID):
        raise Unfit("a UUID")
    return value


def _as_int(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Unfit("an int")
    return value


def _as_float(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Unfit("a float")
    return float(value)


def _as_decimal(value: Any) -> Decimal:
    if not isinstance(value, Decimal | int | float | str) or isinstance(value, bool):
        raise Unfit("a Decimal")
    try:
        return Decimal(str(value))
    except InvalidOperation:
        raise Unfit("a Decimal") from None


def _as_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Unfit("a bool")
    return value


def _as_json(value: Any) -> str:
    if not isinstance(value, Json):
        raise Unfit("Json, as Json({…}) makes it")
    return dump_json(value)


def _plain(value: Any) -> Any:
    """What JSON has no word for, in the words Prisma uses."""
    if isinstance(value, datetime):
        return as_timestamp(value).isoformat()
    if isinstance(value, Json):
        return value.data
    if isinstance(value, Decimal | UUID | Base64):
        return str(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def _enum_codec(enum: Enum) -> Codec:
    names = {label: name for name, label in enum.labels.items()}

    def label(value: Any) -> str:
        if not isinstance(value, str) or value not in enum.labels:
            raise Unfit(f"one of {', '.join(enum.labels)}")
        return enum.labels[value]

    named = qualified(enum.type_name)
    renamed = [(label, name) for label, name in names.items() if label != name]
    select = "{}::text"
    if renamed:
        # Braces are doubled because `select` is a format string.
        cases = " ".join(f"when {_literal(old)} then {_literal(new)}" for old, new in renamed)
        select = "case {0}::text " + cases + " else {0}::text end"
    return Codec(f"::{named}", f"::{named}[]", label, SETS, select=select)


def _literal(text: str) -> str:
    return ("'" + text.replace("'", "''") + "'").replace("{", "{{").replace("}", "}}")


def _simple(encode: Callable[[Any], Any], operators: frozenset[str]) -> Callable[[str], Codec]:
    return lambda name: Codec(f"::{name}", f"::{name}[]", encode, operators)


def _text(name: str) -> Codec:
    # varchar's length is left out: a longer value must be refused or not found, never cut to fit.
    kind = "text" if name.startswith("varchar") else name.partition("(")[0]
    return Codec(f"::{kind}", f"::{kind}[]", _as_text, TEXT)


def _citext(name: str) -> Codec:
    return Codec("::text::citext", "::text[]::citext[]", _as_text, TEXT, select="{}::text")


def _uuid(name: str) -> Codec:
    return Codec("::uuid", "::uuid[]", _as_uuid, TEXT, select="{}::text", text="{}::text")


def _numeric(name: str) -> Codec:
    return Codec("::numeric", "::numeric[]", _as_decimal, ORDERED, select="{}::text", decode=Decimal)


def _timestamptz(name: str) -> Codec:
    # As text, since asyncpg sends the first and last datetimes as infinity.
    cut = _cut_to(name)
    return Codec(f"::text::{name}", f"::text[]::{name}[]", lambda value: cut(as_timestamp(value)).isoformat(), ORDERED)


def _timestamp(name: str) -> Codec:
    # The column holds UTC without saying so.
    cut = _cut_to(name)

    def bare(value: Any) -> str:
        return cut(as_timestamp(value)).replace(tzinfo=None).isoformat()

    return Codec(f"::text::{name}", f"::text[]::{name}[]", bare, ORDERED, select="{} at time zone 'UTC'")


def _date(name: str) -> Codec:
    def day(value: Any) -> str:
        return as_timestamp(value).date().isoformat()

    return Codec("::text::date", "::text[]::date[]", day, ORDERED, select="{}::timestamp at time zone 'UTC'")


def _cut_to(name: str) -> Callable[[datetime], datetime]:
    """Cuts a timestamp to the digits of its column, as Prisma does; Postgres would round, at last to the year 10000."""
    unit = 10 ** (6 - int(name.partition("(")[2].removesuffix(")") or 6))
    return lambda value: value.replace(microsecond=value.microsecond - value.microsecond % unit)


def _jsonb(name: str) -> Codec:
    # As text, so that a pool with a JSON codec of its own changes nothing here.
    return Codec("::text::jsonb", "::text[]::jsonb[]", _as_json, frozenset(), select="{}::text", decode=read_stored)


def _json(name: str) -> Codec:
    # Written as it is, with the order of its keys; jsonb is what can be compared.
    return replace(_jsonb(name), cast="::text::json", list_cast="::text[]::json[]", compare="{}::jsonb")


def _bytea(name: str) -> Codec:
    select = "translate(encode({}, 'base64'), chr(10), '')"
    return Codec("::bytea", "::bytea[]", as_bytes, SETS, select=select, decode=Base64.fromb64)


INT8 = _simple(_as_int, ORDERED)("int8")
NUMERIC = _numeric("numeric")
PLAIN_TEXT = _text("text")
JSONB = _jsonb("jsonb")

_CODECS: dict[str, Callable[[str], Codec]] = {
    "text": _text,
    "varchar": _text,
    "bpchar": _text,
    "citext": _citext,
    "uuid": _uuid,
    "bool": _simple(_as_bool, EQUALITY),
    "int2": _simple(_as_int, ORDERED),
    "int4": _simple(_as_int, ORDERED),
    "int8": _simple(_as_int, ORDERED),
    "float4": _simple(_as_float, ORDERED),
    "float8": _simple(_as_float, ORDERED),
    "numeric": _numeric,
    "timestamptz": _timestamptz,
    "timestamp": _timestamp,
    "date": _date,
    "json": _json,
    "jsonb": _jsonb,
    "bytea": _bytea,
}
