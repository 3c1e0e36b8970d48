"""One shape for why a job, a run, a trigger or a worker does not do anything: a reason, a sentence, the way out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar

from atlas.models.explain import Explanation, Remedy
from atlas.models.sentences import parts_of, text_of, time_in
from atlas.models.system import Gate, pause_text, resume_command

E = TypeVar("E", bound=Explanation)
Explained: TypeAlias = Literal["job", "run", "trigger", "worker"]


@dataclass(frozen=True, slots=True)
class Why:
    """`reason` is a stable word for programs, `sentence` the cause for people.

    `remedy` is what a person can do about it, `command` a command that does it, `action` the button that does it.
    `numbers` are the figures behind it.
    """

    reason: str
    sentence: str
    remedy: str | None = None
    command: str | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)
    action: Remedy | None = None


def explained(model: type[E], kind: Explained, id: object, status: str, why: Why) -> E:
    """The explanation of a job, a run, a trigger or a worker."""
    parts = parts_of(why.sentence)
    return model(
        kind=kind,
        id=str(id),
        status=status,
        reason=why.reason,
        sentence=text_of(parts),
        parts=parts,
        remedy=why.remedy,
        command=why.command,
        numbers=dict(why.numbers),
        action=why.action,
    )


def offline(gate: Gate) -> Why:
    """The gate is closed."""
    action = Remedy(verb="bring_online")
    return Why("gate", gate.why_closed(time_in), "Bring Atlas online.", "atlas online", action=action)


def paused(pause: Mapping[str, Any]) -> Why:
    """A pause holds it: `id`, `kind`, `name`, `tenant`, `reason`, `by`, `since` and `until` of it."""
    until = None if pause["until"] is None else datetime.fromisoformat(pause["until"])
    since = datetime.fromisoformat(pause["since"])
    cause = pause_text(pause["kind"], pause["name"], since, pause["by"], pause["reason"], until, time_in)
    command = resume_command(pause["kind"], pause["name"], pause["tenant"])
    return Why("paused", cause, "Resume it.", command, action=Remedy(verb="resume", target=pause["id"]))


def said(message: str | None) -> str:
    """A recorded message as the end of a sentence."""
    text = " ".join((message or "no message was recorded").split())
    return text if text.endswith((".", "!", "?")) else f"{text}."
