"""The host's allow-list of commands: a JSON file with an argv for each job type, and nothing else.

    {"SERVER_RESTART": ["/usr/bin/systemctl", "restart", "--", "{{ unit }}"]}

An argument is literal text, or one placeholder for a field of the payload or a fact. The program is an absolute path,
never a shell, and no value becomes an option: one that begins with a dash is refused.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atlas.errors import FieldError, InvalidInput, NotFound, SettingsError
from atlas.programs.argv import argument_problem, program_problem

FACTS = ("job.id", "job_run.id", "host.id", "server_instance.id")
_PLACEHOLDER = re.compile(rf"\{{\{{\s*([A-Za-z_][A-Za-z0-9_-]*|{'|'.join(map(re.escape, FACTS))})\s*\}}\}}")


@dataclass(frozen=True, slots=True)
class AllowedCommands:
    """The argv template of each job type that the host runs."""

    templates: Mapping[str, Sequence[str]]

    @classmethod
    def load(cls, path: Path) -> "AllowedCommands":
        """Read a file, or say what is wrong with it."""
        try:
            value = json.loads(path.read_bytes())
        except OSError as error:
            remedy = "Name a file with --commands; examples/agent-commands.json shows one."
            raise SettingsError(f"{path} cannot be read: {error.strerror}.", remedy=remedy) from error
        except ValueError as error:
            raise SettingsError(f"{path} is not JSON: {error}.") from error
        return cls.of(value, what=str(path))

    @classmethod
    def of(cls, value: Any, *, what: str = "The allow-list") -> "AllowedCommands":
        """The commands that a document describes."""
        if not isinstance(value, dict):
            raise InvalidInput(what, [FieldError("", "is not an object of job types")])
        wrong = [error for job_type, argv in value.items() for error in _check(job_type, argv)]
        if wrong:
            raise InvalidInput(what, wrong)
        return cls(value)

    def argv(self, job_type: str, payload: Mapping[str, Any], facts: Mapping[str, str]) -> list[str]:
        """The arguments for a job. One that is not allowed, or whose payload does not fit, is an AtlasError."""
        template = self.templates.get(job_type)
        if template is None:
            raise NotFound("command for job type", job_type, remedy="Add one to the host's allow-list.")
        values = {**_scalars(payload), **facts}
        return [_argument(text, values) for text in template]


def _check(job_type: str, argv: Any) -> list[FieldError]:
    if not isinstance(argv, list) or not argv or not all(isinstance(text, str) for text in argv):
        return [FieldError(job_type, "is not a list of texts")]
    reasons = {0: program_problem(argv[0])}
    for nth, text in enumerate(argv[1:], 1):
        half = "{{" in text and not _PLACEHOLDER.fullmatch(text)
        explanation = f"names neither a field nor one of {', '.join(FACTS)}, or is only a part of its argument"
        reasons[nth] = explanation if half else argument_problem(text)
    return [FieldError(f"{job_type}.{nth}", reason) for nth, reason in reasons.items() if reason is not None]


def _argument(text: str, values: Mapping[str, str]) -> str:
    match = _PLACEHOLDER.fullmatch(text)
    if match is None:
        return text
    name = match[1]
    if name not in values:
        raise _refused(name, "is missing or not a text, a number or a boolean")
    value = values[name]
    reason = "begins with a dash, which would make it an option" if value.startswith("-") else argument_problem(value)
    if reason is not None:
        raise _refused(name, reason)
    return value


def _scalars(payload: Mapping[str, Any]) -> dict[str, str]:
    """Texts unchanged, numbers and booleans as JSON. A field with the name of a fact is left out."""
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in payload.items()
        if isinstance(value, str | int | float) and name not in FACTS
    }


def _refused(name: str, reason: str) -> InvalidInput:
    return InvalidInput("The payload", [FieldError(name, reason)])
