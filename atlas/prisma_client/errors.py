"""What can go wrong, in the classes that users of Prisma already catch, each with Prisma's code in `.code`.

DataError                           any other refusal of the database, or of a value: P2000 too long, P2014 a relation
│                                   that must be there, P2017 and P2018 rows that are not connected, P2020 out of range,
│                                   P2023 not of the column's type, P2034 a conflict of transactions, P2004 the rest
├── UniqueViolationError            P2002
├── ForeignKeyViolationError        P2003
├── MissingRequiredValueError       P2012 (and P2011, a null where none may stand)
├── FieldNotFoundError              P2009, a field, an operator or a value that does not fit the schema
├── InputError                      P2019, a filter that says too little
├── TableNotFoundError              P2021
├── RecordNotFoundError             P2025
├── RawQueryError                   P2010, whatever goes wrong in hand-written SQL
└── UnsupportedQuery                no code: Prisma can say it, this client cannot; the message names the part
ConnectionLost                      the server went away or could not be reached
"""

import re
from typing import Any, TypeVar

import asyncpg

from atlas.db.pool import UNREACHABLE
from atlas.errors import AtlasError, DatabaseUnreachable
from atlas.generated import errors as prisma
from atlas.generated.engine.errors import EngineConnectionError
from atlas.prisma_client.schema import Field, Model

_DataErrorT = TypeVar("_DataErrorT", bound=prisma.DataError)
_COLUMNS = re.compile(r"Key \((.*)\)=\(")
_UNWILLING = (asyncpg.TooManyConnectionsError, asyncpg.InvalidAuthorizationSpecificationError)
# How asyncpg's InterfaceError, which is also raised for misuse, says that there is no connection (any more).
_POOL_CLOSED = re.compile("pool is clos")
_NO_CONNECTION = re.compile("connection is closed|released back to the pool")


class UnsupportedQuery(prisma.DataError, AtlasError):
    """Prisma can say this, but this client does not support it."""

    def __init__(self, part: str, *, remedy: str = "Write it as SQL on the same connection.") -> None:
        super().__init__({}, message=f"The Prisma client does not support {part}.")
        self.remedy = remedy
        self.part = part


class ConnectionLost(DatabaseUnreachable, EngineConnectionError):
    """The server went away, or could not be reached."""


def unknown_field(owner: str, name: object) -> prisma.FieldNotFoundError:
    """The model, or the filter or operation on it, has no such field, or none that the client may see."""
    return _refused_field(f"Could not find field `{name}` on {owner}", field=str(name))


def wrong_value(label: str, expected: str, value: object) -> prisma.FieldNotFoundError:
    """A value of the wrong kind. It is shown shortened, since it may be anything."""
    return _refused_field(f"`{label}` takes {expected}, not {value!r:.80}", field=label)


def inconsistent_value(label: str, expected: str, value: object) -> prisma.DataError:
    """A value that is no value of the column's type."""
    message = f"Inconsistent column data: `{label}` takes {expected}, not {value!r:.80}"
    return _error(prisma.DataError, "P2023", message, field=label)


def wrong_input(message: str) -> prisma.InputError:
    """A filter that does not say what it wants."""
    return _error(prisma.InputError, "P2019", f"Input error. {message}")


def missing_value(label: str, why: str = "is required") -> prisma.MissingRequiredValueError:
    """A value that must be there is not."""
    return _error(prisma.MissingRequiredValueError, "P2012", f"A value is required but not set: `{label}` {why}")


def no_record(cause: str) -> prisma.RecordNotFoundError:
    """A record the operation depends on does not exist."""
    message = f"An operation failed because it depends on a record that was not found. {cause}"
    return _error(prisma.RecordNotFoundError, "P2025", message, cause=cause)


def required_relation(field: Field) -> prisma.DataError:
    """The write would take away the related row of a row that must have one."""
    return _error(
        prisma.DataError, "P2014", f"The change would violate the required relation on the side of {field.label}"
    )


def not_connected(field: Field) -> prisma.DataError:
    """Rows of a relation, named by their keys, do not all belong to it."""
    return _error(prisma.DataError, "P2017", f"The records for the relation {field.label} are not connected.")


def none_to_connect(field: Field) -> prisma.DataError:
    """Rows to be connected do not all exist."""
    message = f"The required connected records were not found: not every record to connect to {field.label} exists."
    return _error(prisma.DataError, "P2018", message)


def translate(error: BaseException, *, model: Model | None = None) -> Exception:
    """Prisma's error for one of asyncpg's. With no model it came from hand-written SQL."""
    if isinstance(error, asyncpg.InterfaceError) and _POOL_CLOSED.search(str(error)):
        return prisma.ClientNotConnectedError()
    if _is_loss(error):
        return ConnectionLost(
            f"Postgres did not respond: {_words(error)}.",
            remedy="Check that the server runs and can be reached, then try again.",
        )
    if model is None:
        return _refused(error, "P2010", prisma.RawQueryError)
    return _constraint(error, model) or _refused(error, _code(error), prisma.DataError)


def _is_loss(error: BaseException) -> bool:
    if isinstance(error, asyncpg.InterfaceError):
        return _NO_CONNECTION.search(str(error)) is not None
    return isinstance(error, (*UNREACHABLE, *_UNWILLING))


def _code(error: BaseException) -> str:
    match error:
        case asyncpg.TransactionRollbackError():
            return "P2034"
        case asyncpg.StringDataRightTruncationError():
            return "P2000"
        case asyncpg.NumericValueOutOfRangeError():
            return "P2020"
        case asyncpg.DataError():
            return "P2023"
    return "P2004"


def _constraint(error: BaseException, model: Model) -> prisma.DataError | None:
    """The constraints that Prisma has a class of its own for."""
    match error:
        case asyncpg.UniqueViolationError():
            target = _fields(model, error)
            message = f"Unique constraint failed on {_named_fields(target, error)}"
            return _error(prisma.UniqueViolationError, "P2002", message, modelName=model.name, target=target)
        case asyncpg.ForeignKeyViolationError() | asyncpg.RestrictViolationError():
            message = f"Foreign key constraint failed on {_named_fields(_fields(model, error), error)}"
            name = error.constraint_name
            return _error(prisma.ForeignKeyViolationError, "P2003", message, modelName=model.name, field_name=name)
        case asyncpg.NotNullViolationError():
            name = _field_name(model, error.column_name or "")
            message = f"Null constraint violation on the field: `{name}`"
            return _error(prisma.MissingRequiredValueError, "P2011", message, constraint=name)
        case asyncpg.UndefinedTableError():
            message = f"The table `{model.table}` does not exist in the current database."
            return prisma.TableNotFoundError(_answer("P2021", message, table=model.table))
    return None


def _refused(error: BaseException, code: str, kind: type[_DataErrorT]) -> _DataErrorT:
    """The database's own words."""
    message = _words(error)
    return _error(kind, code, message, code=getattr(error, "sqlstate", None), message=message)


def _words(error: BaseException) -> str:
    """Message and hint. The detail stays with the cause, since it may show the values of a row."""
    message = str(error.args[0]) if error.args else type(error).__name__
    hint = getattr(error, "hint", None)
    return f"{message} ({hint})" if hint else message


def _fields(model: Model, error: Any) -> list[str]:
    """The fields a violated key is made of, as far as Postgres names its columns."""
    match = _COLUMNS.match(error.detail or "")
    return [_field_name(model, column.strip('"')) for column in match[1].split(", ")] if match else []


def _field_name(model: Model, column: str) -> str:
    named: dict[str, Field] = {field.column: field for field in model.scalars}
    return named[column].name if column in named else column


def _named_fields(fields: list[str], error: Any) -> str:
    names = ", ".join(f"`{name}`" for name in fields)
    return f"the fields: ({names})" if names else f"the constraint: `{error.constraint_name}`"


def _refused_field(message: str, **meta: Any) -> prisma.FieldNotFoundError:
    return prisma.FieldNotFoundError(_answer("P2009", message, **meta), message=message)


def _error(kind: type[_DataErrorT], code: str, message: str, /, **meta: Any) -> _DataErrorT:
    return kind(_answer(code, message, **meta))


def _answer(code: str, message: str, /, **meta: Any) -> dict[str, Any]:
    """The shape in which Prisma's engine reports an error, and which its classes read."""
    return {"user_facing_error": {"error_code": code, "message": message, "meta": meta}}
