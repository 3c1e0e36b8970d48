"""group_by: groups of rows, what is counted, summed and compared in each, and a filter of the groups."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from atlas.db.schema import qualified
from atlas.prisma_client.compile.draft import CompiledQuery, Draft, column, named, scalar
from atlas.prisma_client.compile.filters import Operand, value_filter
from atlas.prisma_client.compile.order import direction_sql, order_entries, parse_direction
from atlas.prisma_client.compile.pages import limit_sql, parse_page
from atlas.prisma_client.compile.reads import aggregates
from atlas.prisma_client.compile.where import field_filter, logic_sql, where_sql
from atlas.prisma_client.errors import missing_value, wrong_input, wrong_value
from atlas.prisma_client.schema import Field, Model, Schema
from atlas.prisma_client.values import INT8, NUMERIC, PLAIN_TEXT, Codec, codec_of, compare_sql, select_sql

_FUNCTIONS = ("_count", "_sum", "_avg", "_min", "_max")
_NUMBERS = ("Int", "BigInt", "Float", "Decimal")


@dataclass(frozen=True, slots=True)
class Output:
    """One value of a group: where it stands in the result, and how it is read."""

    path: tuple[str, ...]
    sql: str
    read: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate over a group: its expression, how it is compared, selected and read."""

    sql: str
    codec: Codec
    select: str
    read: Callable[[Any], Any]


def group_by(
    schema: Schema, model: Model, arguments: Mapping[str, Any], selection: list[str]
) -> tuple[CompiledQuery, list[Output]]:
    """The statement, and the shape that its rows are to be given."""
    draft = Draft(schema)
    alias = draft.alias()
    options = named(arguments, model.name, ("by", "where", "having", "order_by", "take", "skip"))
    by = _by(model, options.get("by"))
    outputs = _outputs(model, alias, by, selection)
    page = parse_page(draft, model, {"take": options.get("take"), "skip": options.get("skip")})
    columns = ", ".join(output.sql for output in outputs)
    grouped = ", ".join(_grouped(alias, field) for field in by)
    order = _order(model, alias, by, options.get("order_by"), backwards=page.backwards)
    sql = (
        f"select {columns} from {qualified(model.table)} {alias}"
        f" where {where_sql(draft, model, alias, options.get('where'))} group by {grouped}"
        f" having {_having(draft, model, alias, by, options.get('having'))}{order}"
        f"{limit_sql(draft, page.limit, page.skip)}"
    )
    return CompiledQuery(sql, draft.parameters, backwards=page.backwards), outputs


def group_of(values: list[Any], outputs: list[Output]) -> dict[str, Any]:
    """One row of the statement as `{"status": …, "_sum": {"priority": …}}`."""
    group: dict[str, Any] = {}
    for output, value in zip(outputs, values, strict=True):
        *parents, name = output.path
        place = group.setdefault(parents[0], {}) if parents else group
        place[name] = None if value is None else output.read(value)
    return group


def _by(model: Model, names: Any) -> list[Field]:
    if not isinstance(names, list | tuple):
        raise wrong_value(f"{model.name}.by", "a list of fields", names)
    if not names:
        raise missing_value(f"{model.name}.by", "needs a field")
    return [scalar(model, name) for name in dict.fromkeys(names)]


def _grouped(alias: str, field: Field) -> str:
    return compare_sql(field, column(alias, field))


def _outputs(model: Model, alias: str, by: list[Field], selection: list[str]) -> list[Output]:
    outputs = [Output((field.name,), select_sql(field, _grouped(alias, field)), _reader(field)) for field in by]
    for function, names in aggregates(model, selection).items():
        for name in names:
            aggregate = _aggregate(model, alias, function, name)
            outputs.append(Output((function, name), aggregate.select.format(aggregate.sql), aggregate.read))
    return outputs


def _reader(field: Field) -> Callable[[Any], Any]:
    codec = codec_of(field)
    return (lambda values: [codec.read(value) for value in values]) if field.is_list else codec.read


def _aggregate(model: Model, alias: str, function: str, name: str) -> Aggregate:
    if function == "_count":
        sql = "count(*)" if name == "_all" else f"count({column(alias, scalar(model, name))})"
        return Aggregate(sql, INT8, "{}", int)
    field = scalar(model, name)
    if function in ("_sum", "_avg"):
        return _number_aggregate(alias, field, function)
    return _extreme(alias, field, function)


def _number_aggregate(alias: str, field: Field, function: str) -> Aggregate:
    if field.type not in _NUMBERS or field.is_list:
        raise wrong_value(f"{field.label}.{function}", "a field of numbers", field.name)
    sql = f"{function.removeprefix('_')}({column(alias, field)})"
    if field.type == "Float":
        return Aggregate(f"{sql}::float8", codec_of(field), "{}", float)
    if field.type == "Decimal":
        return Aggregate(sql, NUMERIC, NUMERIC.select, NUMERIC.read)
    return Aggregate(f"{sql}::numeric", NUMERIC, NUMERIC.select, int if function == "_sum" else float)


def _extreme(alias: str, field: Field, function: str) -> Aggregate:
    name = function.removeprefix("_")
    codec, expression = codec_of(field), column(alias, field)
    if field.is_list or field.type in ("Json", "Bytes"):
        raise wrong_value(f"{field.label}.{function}", "a field whose values have an order", field.name)
    if field.pg_type == "uuid":  # Postgres compares UUIDs but has no min() of them; as text they sort alike
        return Aggregate(f"{name}({expression}::text)", PLAIN_TEXT, "{}", str)
    if field.type == "Boolean":
        name = "bool_and" if name == "min" else "bool_or"
    return Aggregate(f"{name}({expression})", codec, codec.select, codec.read)


def _having(draft: Draft, model: Model, alias: str, by: list[Field], tree: Any) -> str:
    def condition(name: str, filter_value: Any) -> str | None:
        field = scalar(model, name)
        functions = (
            {key: filter_value[key] for key in filter_value if key in _FUNCTIONS}
            if isinstance(filter_value, dict)
            else {}
        )
        parts = []
        for function, limits in functions.items():
            aggregate = _aggregate(model, alias, function, name)
            operand = Operand(aggregate.sql, aggregate.codec, f"{field.label}.{function}", nullable=True)
            parts.append(value_filter(draft, operand, limits))
        rest = {key: filter_value[key] for key in filter_value if key not in functions} if functions else filter_value
        if rest or not functions:
            parts.append(_grouped_filter(draft, alias, by, field, rest))
        return " and ".join(part for part in parts if part) or None

    return logic_sql(draft, tree, f"{model.name}.having", condition) or "true"


def _grouped_filter(draft: Draft, alias: str, by: list[Field], field: Field, filter_value: Any) -> str | None:
    if field not in by:
        raise wrong_input(f"{field.label} in `having` must be grouped by, or stand in an aggregate.")
    return field_filter(draft, _grouped(alias, field), field, filter_value)


def _order(model: Model, alias: str, by: list[Field], order: Any, *, backwards: bool) -> str:
    """By grouped fields, and by aggregates as in `{"_count": {"id": "desc"}}`."""
    keys = []
    for name, order_value in order_entries(f"{model.name}.order", order):
        if name in _FUNCTIONS:
            for inner, direction in order_entries(f"{model.name}.{name}", order_value):
                keys.append((_aggregate(model, alias, name, inner).sql, direction))
        elif scalar(model, name) in by:
            keys.append((_grouped(alias, scalar(model, name)), order_value))
        else:
            raise wrong_input(f"{model.name}.{name} must be grouped by to give the order.")
    parts = []
    for sql, order_value in keys:
        descending, nulls_first = parse_direction(f"{model.name}.order", order_value)
        parts.append(f"{sql} {direction_sql(descending != backwards, nulls_first != backwards)}")
    return f" order by {', '.join(parts)}" if parts else ""
