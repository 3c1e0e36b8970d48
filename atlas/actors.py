"""Who makes a change: the name in the audit log, which four-eyes rules compare."""

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import orjson

ActorType = Literal["user", "agent", "system"]


@dataclass(frozen=True, slots=True)
class Actor:
    """A person, a program or Atlas itself. `id` is a token's subject, never the token."""

    type: ActorType
    id: str
    # The address that the request came from, as the audit log commits to it: `commit_address` stores it.
    ip_commitment: str | None = None
    request_id: str | None = None
    token: str | None = None  # its prefix, which may be shown
    session: UUID | None = None  # the sign-in of a browser; events name its token only

    @property
    def meta(self) -> dict[str, Any]:
        """What an audit row adds about the request, if there is one."""
        meta: dict[str, Any] = {}
        if self.ip_commitment is not None:
            meta["ip"] = {"commitment": self.ip_commitment}
        if self.request_id is not None:
            meta["request_id"] = self.request_id
        if self.token is not None:
            meta["token"] = self.token
        return meta

    def arguments(self, **facts: Any) -> dict[str, str]:
        """The actor as arguments of a statement that writes an audit row; its meta has these facts too."""
        return {"actor_type": self.type, "actor_id": self.id, "meta": orjson.dumps({**self.meta, **facts}).decode()}


def system(name: str) -> Actor:
    """Atlas itself, acting as one of its own programs."""
    return Actor("system", name)


def as_actor(actor: Actor | str) -> Actor:
    """A name alone is a person's, or a program's that acts for people."""
    return Actor("user", actor) if isinstance(actor, str) else actor
