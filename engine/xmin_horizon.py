"""Names what holds Postgres's xmin horizon: while it is held, no dead row that is newer is removed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from atlas.db.pool import Queryable
from atlas.db.schema import role, schema_name
from atlas.db.statements import statement
from atlas.models.sentences import utc

HOLDERS = statement("engine/sql/xmin_holders.sql")

HolderKind: TypeAlias = Literal["session", "prepared transaction", "slot", "standby"]
KINDS: tuple[HolderKind, ...] = ("session", "prepared transaction", "slot", "standby")
# Statements of Atlas, autovacuum and ordinary reports are shorter than that.
MIN_SECONDS = 60.0
# From this number of dead rows on, reads of active jobs along their indexes are slow while the horizon is held.
SLOW_DEAD_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class HorizonHolder:
    """A session, prepared transaction, replication slot or standby that holds the horizon, since when.

    `name` is the session's pid, the transaction's or the slot's name, or the standby's application name. `dead_rows` is
    an estimate of all dead rows in Atlas's tables, or in the catalogs where it keeps those alone. Where `is_hidden` is
    true, the login may not see what the session does.
    """

    kind: HolderKind
    name: str
    login: str | None
    application: str | None
    state: str | None
    catalogs_only: bool
    is_hidden: bool
    since: datetime
    seconds: float
    dead_rows: int

    @property
    def statement(self) -> str:
        """The statement that ends it, on the primary; of a standby, on that standby."""
        name = self.name.replace("'", "''")
        match self.kind:
            case "session":
                return f"select pg_terminate_backend({self.name})"
            case "prepared transaction":
                return f"rollback prepared '{name}'"
            case "slot":
                return f"select pg_drop_replication_slot('{name}')"
            case "standby":
                return (
                    "select pg_terminate_backend(pid) from pg_stat_activity where backend_xmin is not null and"
                    f" xact_start < now() - interval '{MIN_SECONDS:.0f} seconds'"
                )

    @property
    def cause(self) -> str:
        """Who it is, what it keeps, and since when."""
        return f"{self.what} since {utc(self.since)}."

    @property
    def what(self) -> str:
        """Who it is and what it keeps. Stays the same for a while, so that an alert is one alert."""
        facts = [
            f"application {self.application}" if self.application else None,
            f"login {self.login}" if self.login else None,
            "its state is hidden" if self.is_hidden else self.state,
        ]
        details = ", ".join(filter(None, facts))
        rows = f"about {rounded(self.dead_rows):,} dead rows of {'the catalogs' if self.catalogs_only else 'Atlas'}"
        kept = f"{rows} (an estimate)" if self.dead_rows else "dead rows"
        log = " and the write-ahead log" if self.kind == "slot" else ""
        name = f"{self.kind.capitalize()} {self.name}"
        return f"{name}{f' ({details})' if details else ''} has kept {kept}{log}"

    @property
    def remedy(self) -> str:
        """How to end it, and how to see more."""
        where = "On that standby, end the queries that hold it" if self.kind == "standby" else "End it"
        seen = f" Let Atlas see what it does: grant pg_read_all_stats to {role('engine')};" if self.is_hidden else ""
        return f"{where}: {self.statement};{seen}"


async def find_holders(conn: Queryable, *, min_seconds: float = MIN_SECONDS) -> list[HorizonHolder]:
    """What holds the horizon for at least so long, what matters most first."""
    rows = await conn.fetch(HOLDERS.sql, *HOLDERS.bind({"schema": schema_name(), "min_seconds": min_seconds}))
    return [HorizonHolder(**row) for row in rows]


def rounded(count: int) -> int:
    """Down to one digit, so that a growing number changes a message only now and then."""
    power = int("1" + "0" * (len(str(count)) - 1))
    return count // power * power
