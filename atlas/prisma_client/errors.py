"""What can go wrong, in the classes that users of Prisma already catch.

UnsupportedQuery                    Prisma can say it, this client cannot; the message names the part
ConnectionLost                      the server went away or could not be reached
and Prisma's own, each with Prisma's code in `.code`:
DataError                           any other refusal of the database, or of a value
├── UniqueViolationError            P2002
├── ForeignKeyViolationError        P2003
├── MissingRequiredValueError       P2012 (and P2011, a null where none may stand)
├── InputError                      P2019, a value of the wrong kind
├── FieldNotFoundError              P2009, a field the schema does not have
├── TableNotFoundError              P2021
├── RecordNotFoundError             P2025
└── RawQueryError                   P2010, whatever goes wrong in hand-written SQL
"""

import re
from typing import Any, TypeVar

import asyncpg
from prisma import errors as prisma
from prisma.engine.errors import EngineConnectionError

from atlas.db.pool import UNREACHABLE
from atlas.errors import AtlasError, DatabaseUnreachable
from atlas.prisma_client.schema import Field, Model

_DataErrorT = TypeVar("_DataErrorT", bound=prisma.DataError)
_COLUMNS = re.compile(r"Key \((.*)\)=\(")
_UNWILLING = (asyncpg.TooManyConnectionsError, asyncpg.InvalidAuthorizationSpecificationError)
# How asyncpg's InterfaceError, which is also raised for misuse, says that there is no connection (any more).
_POOL_CLOSED = re.compile("pool is clos")
_NO_CONNECTION = re.compile("connection is closed|released back to the pool")


class UnsupportedQuery(AtlasError, prisma.PrismaError):
    """Prisma can say this, but this client does not answer it."""

    def __init__(self, part: str, *, remedy: str = "Write it as SQL on the same connection.") -> None:
        super().__init__(f"The Prisma client does not support {part}.", remedy=remedy)
        self.part = part


class ConnectionLost(DatabaseUnreachable, EngineConnectionError):
    """The server went away, or could not be reached."""


def unknown_field(model: Model, name: object) -> prisma.FieldNotFoundError:
    """The model has no such field, or none that the client may see."""
    data = _answer("P2009", f"Could not find field `{name}` on model `{model.name}`", field=str(name))
    return prisma.FieldNotFoundError(data, message=data["user_facing_error"]["message"])


def wrong_value(label: str, expected: str, value: object) -> prisma.InputError:
    """A value of the wrong kind. It is shown shortened, since it may be anything."""
    return _error(prisma.InputError, "P2019", f"`{label}` takes {expected}, not {value!r:.80}", field=label)


def missing_value(label: str, why: str = "is required") -> prisma.MissingRequiredValueError:
    """A value that must be there is not."""
    return _error(prisma.MissingRequiredValueError, "P2012", f"A value is required but not set: `{label}` {why}")


def no_record(cause: str) -> prisma.RecordNotFoundError:
    """A record the operation depends on does not exist."""
    message = f"An operation failed because it depends on a record that was not found. {cause}"
    return _error(prisma.RecordNotFoundError, "P2025", message, cause=cause)


def translate(error: BaseException, *, model: Model | None = None) -> Exception:
    """Prisma's error for one of asyncpg's. With no model it came from hand-written SQL."""
    if isinstance(error, asyncpg.InterfaceError) and _POOL_CLOSED.search(str(error)):
        return prisma.ClientNotConnectedError()
    if _is_loss(error):
        return ConnectionLost(
            f"Postgres did not answer: {_words(error)}.",
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
        case asyncpg.DataError():
            return "P2023"
    return "P2004"


def _constraint(error: BaseException, model: Model) -> prisma.DataError | None:
    """The constraints that Prisma has a class of its own for."""
    match error:
        case asyncpg.UniqueViolationError():
            target = _fields(model, error)
            message = f"Unique constraint failed on {_shown(target, error)}"
            return _error(prisma.UniqueViolationError, "P2002", message, modelName=model.name, target=target)
        case asyncpg.ForeignKeyViolationError() | asyncpg.RestrictViolationError():
            message = f"Foreign key constraint failed on {_shown(_fields(model, error), error)}"
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
    found = _COLUMNS.match(error.detail or "")
    return [_field_name(model, column.strip('"')) for column in found[1].split(", ")] if found else []


def _field_name(model: Model, column: str) -> str:
    named: dict[str, Field] = {field.column: field for field in model.scalars}
    return named[column].name if column in named else column


def _shown(fields: list[str], error: Any) -> str:
    names = ", ".join(f"`{name}`" for name in fields)
    return f"the fields: ({names})" if names else f"the constraint: `{error.constraint_name}`"


def _error(kind: type[_DataErrorT], code: str, message: str, /, **meta: Any) -> _DataErrorT:
    return kind(_answer(code, message, **meta))


def _answer(code: str, message: str, /, **meta: Any) -> dict[str, Any]:
    """The shape in which Prisma's engine reports an error, and which its classes read."""
    return {"user_facing_error": {"error_code": code, "message": message, "meta": meta}}
