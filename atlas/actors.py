"""Who makes a change: the name in the audit log, which four-eyes rules compare."""

from dataclasses import dataclass
from typing import Literal

ActorType = Literal["user", "agent", "system"]


@dataclass(frozen=True, slots=True)
class Actor:
    """A person, a program or Atlas itself. `id` is a token's subject, never the token."""

    type: ActorType
    id: str
    ip: str | None = None
    request_id: str | None = None
    token: str | None = None  # its prefix, which may be shown

    @property
    def meta(self) -> dict[str, str]:
        """What an audit row adds about the request, if there is one."""
        if self.ip is None and self.request_id is None and self.token is None:
            return {}
        found = {"ip": self.ip, "request_id": self.request_id, "token": self.token}
        return {name: value for name, value in found.items() if value is not None}


def system(name: str) -> Actor:
    """Atlas itself, acting as one of its own programs."""
    return Actor("system", name)


def as_actor(actor: Actor | str) -> Actor:
    """A name alone is a person's, or a program's that acts for people."""
    return Actor("user", actor) if isinstance(actor, str) else actor
