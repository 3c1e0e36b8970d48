"""Every error Atlas raises on purpose.

AtlasError                          a cause and a remedy that can be shown to a person
├── SettingsError                   a setting has a value that cannot be used
├── NotFound                        it does not exist, or the caller may not see it
├── Conflict                        the request does not fit the current state
│   ├── DedupeConflict              an active job holds this key with another input
│   └── TenantMoved                 the tenant moves to another installation, or is there already
├── InvalidInput                    the input is not valid
├── Refused                         a rule forbids it: a role, a policy, the gate
├── DatabaseError                   the database cannot be used as it is
│   ├── DatabaseUnreachable         a connection could not be made
│   ├── DatabaseNotReady            it lacks disk, memory or connections, or is starting
│   │   └── NoFreeConnection        all connections of the server or of the login are taken
│   ├── UnsupportedPostgres         the server is too old
│   ├── ForeignDatabase             the database belongs to another product
│   └── MigrationError              the migration files and the database disagree
├── EmbeddedPostgresError           the embedded server could not be started
└── LeaseLost                       the job belongs to another worker now
    └── NotClaimed                  the caller never claimed the job, or has finished it
Errors that only one module raises are defined there and extend these.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class AtlasError(Exception):
    """An error with a cause and a remedy that a person can read."""

    # True for those that wrap an exception of user code, whose stack belongs into the record of an attempt.
    shows_cause = False

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".rstrip()

    def __reduce__(self) -> tuple[Any, ...]:
        """Lets an error be pickled, whatever its class takes to be made."""
        return _unpickled, (type(self), self.args, self.__dict__)

    @property
    def type_name(self) -> str:
        """The name of this kind of error in documents for programs."""
        return type(self).__name__


def _unpickled(kind: type[AtlasError], arguments: tuple[Any, ...], fields: dict[str, Any]) -> AtlasError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(fields)
    return error


class SettingsError(AtlasError):
    """A setting has a value that cannot be used."""


class NotFound(AtlasError):
    """It does not exist, or the caller may not see it."""

    def __init__(self, kind: str, name: object, *, remedy: str = "") -> None:
        super().__init__(f"There is no {kind} {name}.", remedy=remedy)
        self.kind = kind
        self.name = str(name)


def no_tenant(name: object) -> NotFound:
    """The refusal where a tenant does not exist, is not the caller's, or is being removed or moved."""
    remedy = "`atlas tenant list` shows the tenants. Nothing can be added to one that is being removed or moved."
    return NotFound("tenant", name, remedy=remedy)


class Conflict(AtlasError):
    """The request does not fit the current state."""


class TenantMoved(Conflict):
    """The tenant moves to another installation, or is there already: nothing of it changes here. `to` says where."""

    def __init__(self, tenant: str, to: str = "") -> None:
        where = f"Use {to}." if to else "`atlas tenant show` says since when."
        super().__init__(f"Tenant {tenant} moves to another installation; nothing of it changes here.", remedy=where)
        self.tenant = tenant
        self.to = to


class DedupeConflict(Conflict):
    """An active job holds this dedupe key with another input or type."""

    def __init__(self, key: str, holder: object) -> None:
        super().__init__(
            f"Dedupe key {key!r} is held by job {holder} with another input.",
            remedy="Use another key for other work, or wait until that job has ended.",
        )
        self.key = key
        self.holder = str(holder)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error of an input: the field and the reason."""

    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


# How many of its errors the message of an InvalidInput has.
MAX_NAMED_ERRORS = 5


class InvalidInput(AtlasError):
    """The input is not valid; `errors` has each field and reason."""

    def __init__(self, what: str, errors: Sequence[FieldError], *, remedy: str = "") -> None:
        text = "; ".join(str(error) for error in errors[:MAX_NAMED_ERRORS])
        super().__init__(f"{what} is not valid: {text}.", remedy=remedy)
        self.errors = tuple(errors)


def unknown_name(what: str, field: str, name: str, near: Sequence[str]) -> InvalidInput:
    """The refusal of a job type or workflow that nothing has published, with the names that may have been meant."""
    meant = f"; names like it are {', '.join(near)}" if near else ""
    return InvalidInput(
        what,
        [FieldError(field, f"{name!r} is not known{meant}")],
        remedy="Start a worker that has it, or let it wait for one with `allow_unknown` (`--allow-unknown`).",
    )


class Refused(AtlasError):
    """A rule forbids it: a role, a policy, the gate."""


class DatabaseError(AtlasError):
    """The database cannot be used as it is."""


class DatabaseUnreachable(DatabaseError):
    """A connection could not be made."""


class DatabaseNotReady(DatabaseError):
    """It cannot serve now: it lacks disk, memory or connections, or it is starting. This passes."""


class NoFreeConnection(DatabaseNotReady):
    """All connections of the server, or of the login, are taken."""


class UnsupportedPostgres(DatabaseError):
    """The server is too old."""


class ForeignDatabase(DatabaseError):
    """The database already holds tables that are not Atlas's."""


class MigrationError(DatabaseError):
    """The migration files and the database disagree."""


class EmbeddedPostgresError(AtlasError):
    """The embedded server could not be started."""


class LeaseLost(AtlasError):
    """The job belongs to another worker now; this one must not record a result."""

    def __init__(self, job_id: object, attempt: int, *, remedy: str = "") -> None:
        super().__init__(
            f"Job {job_id}, attempt {attempt}, is no longer leased to this worker.",
            remedy=remedy or "Raise ATLAS_LEASE_SECONDS, or look for a handler that blocks the event loop.",
        )


class NotClaimed(LeaseLost):
    """The caller never claimed the job, or has finished it already."""

    def __init__(self, job_id: object, *, remedy: str) -> None:
        AtlasError.__init__(self, f"Job {job_id} is not claimed by this caller.", remedy=remedy)
