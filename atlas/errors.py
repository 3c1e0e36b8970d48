"""Every error Atlas raises on purpose.

AtlasError                          a cause and a remedy, fit to be shown to a person
├── SettingsError                   a setting has a value that cannot be used
├── NotFound                        the thing named does not exist, or is not visible to the caller
├── Conflict                        the request does not fit the state the thing is in
│   └── DedupeConflict              an active job holds this key with another input
├── InvalidInput                    what was given does not have the right shape
├── Refused                         a rule forbids it: a role, a policy, the gate
├── DatabaseError                   the database cannot serve Atlas as it is
│   ├── DatabaseUnreachable         no connection could be made
│   ├── UnsupportedPostgres         the server is too old
│   ├── ForeignDatabase             the database belongs to another product
│   └── MigrationError              the migrations and the database disagree
├── EmbeddedPostgresError           the embedded server could not be started
└── LeaseLost                       the job belongs to another worker now
Errors that one capability alone raises stand beside it and extend these.
"""

from collections.abc import Sequence
from dataclasses import dataclass


class AtlasError(Exception):
    """A cause that a person can read, and what to do about it."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".rstrip()

    @property
    def type_name(self) -> str:
        """The name of this kind of error in documents for programs."""
        return type(self).__name__


class SettingsError(AtlasError):
    """A setting has a value that cannot be used."""


class NotFound(AtlasError):
    """The thing named does not exist, or is not visible to the caller."""

    def __init__(self, kind: str, name: object, *, remedy: str = "") -> None:
        super().__init__(f"There is no {kind} {name}.", remedy=remedy)
        self.kind = kind
        self.name = str(name)


class Conflict(AtlasError):
    """The request does not fit the state the thing is in."""


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
    """One thing that is wrong with an input: where it stands and why it is wrong."""

    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


class InvalidInput(AtlasError):
    """What was given does not have the right shape; `errors` names each field and reason."""

    def __init__(self, what: str, errors: Sequence[FieldError], *, remedy: str = "") -> None:
        shown = "; ".join(str(error) for error in errors[:5])
        super().__init__(f"{what} is not valid: {shown}.", remedy=remedy)
        self.errors = tuple(errors)


class Refused(AtlasError):
    """A rule forbids it: a role, a policy, the gate."""


class DatabaseError(AtlasError):
    """The database cannot serve Atlas as it is."""


class DatabaseUnreachable(DatabaseError):
    """No connection could be made."""


class UnsupportedPostgres(DatabaseError):
    """The server is older than Atlas's statements."""


class ForeignDatabase(DatabaseError):
    """The database already holds tables that are not Atlas's."""


class MigrationError(DatabaseError):
    """The migration files and the database disagree."""


class EmbeddedPostgresError(AtlasError):
    """The embedded server could not be started."""


class LeaseLost(AtlasError):
    """This job now belongs to another worker; nothing this one did may be recorded."""

    def __init__(self, job_id: object, attempt: int) -> None:
        super().__init__(
            f"Job {job_id}, attempt {attempt}, is no longer leased to this worker.",
            remedy="Raise ATLAS_LEASE_SECONDS, or look for a handler that blocks the event loop.",
        )
