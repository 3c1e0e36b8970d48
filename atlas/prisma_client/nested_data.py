"""Reads the data of a write that may reach over relations, and refuses what is wrong before anything is written."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from atlas.prisma_client.compile.draft import Draft, as_dict, named, scalar
from atlas.prisma_client.compile.where import RowFilter, matching, target_of, unique
from atlas.prisma_client.compile.writes import changes_sql, new_values
from atlas.prisma_client.errors import wrong_value
from atlas.prisma_client.schema import Field, Model, Relation, Schema

_ON_CREATE = frozenset({"create", "connect", "connect_or_create"})
_ON_UPDATE = _ON_CREATE | {"disconnect", "delete", "update"}
_ALL = matching(None)
_ON_LISTS = frozenset({"set", "update_many", "delete_many"})

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RowData:
    """What to write: the row's own columns, then the rows that it points to, then those that point to it."""

    columns: Row = field(default_factory=dict)
    held: list["NestedWrite"] = field(default_factory=list)
    owned: list["NestedWrite"] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """Whether it is about this row alone."""
        return not self.held and not self.owned


@dataclass(frozen=True, slots=True)
class NestedStep:
    """Rows on the other side of a relation: which they are, and what to write to them."""

    row_filter: RowFilter = _ALL
    data: RowData = field(default_factory=RowData)


@dataclass(frozen=True, slots=True)
class NestedWrite:
    """One operation on a relation; `{"connect": [{"id": 1}, {"id": 2}]}` has two steps."""

    field: Field
    relation: Relation
    target: Model
    operation: str
    steps: list[NestedStep]


@dataclass(frozen=True, slots=True)
class DataReader:
    """Reads data by a schema."""

    schema: Schema

    def create(self, model: Model, data: Any) -> RowData:
        """The data of a new row."""
        row = self._read(model, data, _ON_CREATE)
        if not row.is_plain:  # what is plain is one statement, and is checked when that is written
            self._check_new(model, row)
        return row

    def update(self, model: Model, data: Any) -> RowData:
        """The data of a row that is there already."""
        row = self._read(model, data, _ON_UPDATE)
        if not row.is_plain:
            self._check_changes(model, row)
        return row

    def _read(self, model: Model, data: Any, allowed: frozenset[str]) -> RowData:
        row = RowData()
        for name, value in as_dict(data, f"{model.name}.data").items():
            field = model.fields.get(name)
            if field is None or field.relation is None:
                row.columns[scalar(model, name).name] = value
                continue
            target = target_of(self.schema, field)
            for operation, entry in named(value, field.label, _offered(field, allowed)).items():
                steps = list(self._steps(field, field.relation, target, operation, entry))
                written = row.held if field.relation.holds_key else row.owned
                written.append(NestedWrite(field, field.relation, target, operation, steps))
        return row

    def _check_new(self, model: Model, row: RowData, supplied: Collection[str] = ()) -> None:
        supplied = {*supplied, *(name for write in row.held for name in write.relation.own)}
        _check_unsupplied(model, row, supplied)
        new_values(Draft(self.schema), model, row.columns, supplied)

    def _check_changes(self, model: Model, row: RowData) -> None:
        _check_unsupplied(model, row, {name for write in row.held for name in write.relation.own})
        changes_sql(Draft(self.schema), model, "t0", row.columns)

    def _steps(self, of: Field, relation: Relation, target: Model, operation: str, value: Any) -> Iterator[NestedStep]:
        label = f"{of.label}.{operation}"
        if operation in ("disconnect", "delete") and not of.is_list:
            if isinstance(value, bool):
                yield from [NestedStep()] if value else []
            else:
                yield NestedStep(self._checked(target, matching(as_dict(value, label))))
            return
        several = value if of.is_list and isinstance(value, list | tuple) else [value]
        # Prisma connects a row that is named twice once.
        for step in [entry for number, entry in enumerate(several) if entry not in several[:number]]:
            yield self._step(of, relation, target, operation, as_dict(step, label))

    def _step(self, of: Field, relation: Relation, target: Model, operation: str, value: Row) -> NestedStep:
        match operation:
            case "create":
                return NestedStep(data=self._new(relation, target, value))
            case "connect" | "set" | "disconnect" | "delete":
                return NestedStep(self._checked(target, unique(value)))
            case "delete_many":
                return NestedStep(self._checked(target, matching(value)))
            case "connect_or_create":
                where, create = _both(of, operation, value, "where", "create")
                return NestedStep(self._checked(target, unique(where)), self._new(relation, target, create))
            case "update" if not of.is_list:
                is_whole = value.keys() == {"where", "data"} and not value.keys() <= target.fields.keys()
                where, data = _both(of, operation, value, "where", "data") if is_whole else (None, value)
                return NestedStep(self._checked(target, matching(where)), self._changed(target, data))
        where, data = _both(of, operation, value, "where", "data")
        row_filter = self._checked(target, unique(where) if operation == "update" else matching(where))
        if operation == "update_many":
            for name in as_dict(data, f"{target.name}.data"):
                scalar(target, name)
        return NestedStep(row_filter, self._changed(target, data))

    def _new(self, relation: Relation, target: Model, data: Any) -> RowData:
        row = self._read(target, data, _ON_CREATE)
        self._check_new(target, row, () if relation.holds_key else relation.theirs)
        return row

    def _changed(self, target: Model, data: Any) -> RowData:
        row = self._read(target, data, _ON_UPDATE)
        self._check_changes(target, row)
        return row

    def _checked(self, target: Model, row_filter: RowFilter) -> RowFilter:
        row_filter(Draft(self.schema), target, "t0")
        return row_filter


def _offered(of: Field, allowed: frozenset[str]) -> frozenset[str]:
    """The operations that Prisma offers on a relation."""
    if of.is_list:
        return allowed | _ON_LISTS if "update" in allowed else allowed
    return allowed - {"disconnect", "delete"} if of.required else allowed


def _both(of: Field, operation: str, value: Row, first: str, other: str) -> tuple[Any, Any]:
    if value.keys() != {first, other}:
        raise wrong_value(f"{of.label}.{operation}", f"`{first}` and `{other}`", sorted(map(str, value)))
    return value[first], value[other]


def _check_unsupplied(model: Model, row: RowData, supplied: Collection[str]) -> None:
    for name in row.columns:
        if name in supplied:
            raise wrong_value(f"{model.name}.{name}", "the value that its relation gives it", row.columns[name])
