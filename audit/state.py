"""The state of what grants power or decides, as a digest in each of its events.

`record` adds it to the event as `state`, in the transaction of the change, and null where the entity is gone. So the
last event of an entity says what its row must be, column by column, and the cross-check finds every other row.
"""

from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement
from atlas.ids import as_id

STATE_OF = statement("audit/sql/state_of.sql")

STATE_KINDS = frozenset(
    {
        *("tenant", "token", "session", "approval", "policy_rule", "definition", "workflow", "trigger"),
        *("host", "server_instance", "webhook", "inbound_hook"),
    }
)


async def state_of(conn: Connection, kind: str, id: str, tenant_id: UUID | None) -> dict[str, str | None]:
    """What an event of this entity adds to its meta: nothing for a kind without a digest, or for an id that is none."""
    if kind not in STATE_KINDS or (kind != "workflow" and as_id(id) is None):
        return {}
    return {"state": await fetch_value(conn, STATE_OF, kind=kind, id=id, tenant_id=tenant_id)}
