"""Reads the description of a trigger, and checks it as a whole before it is stored."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from atlas.engine.admission import ENGINE_RUN, NOT_A_JOB
from atlas.engine.jobs.handlers.types import canonical, field_errors
from atlas.engine.schedules.timezones import check_zone
from atlas.engine.templates import check_expressions, check_template
from atlas.engine.triggers.cron import check_cron
from atlas.engine.triggers.spec import TriggerSpec
from atlas.engine.validation import check_name
from atlas.engine.workflows.steps.step_values import object_text
from atlas.errors import FieldError, InvalidInput
from atlas.models.triggers import TARGETS

# The names that a payload template may use, by the type of its trigger.
NAMES = {"event": ("event", "trigger"), "schedule": ("fire", "trigger")}

# Names with dots; a last part `*` stands for everything under the name before it.
_EVENT_NAME = re.compile(r"[^\s.*]+(\.[^\s.*]+)*(\.\*)?")


def read_trigger(described: Mapping[str, Any]) -> TriggerSpec:
    """The trigger that a JSON object describes, or InvalidInput with everything that is wrong with it."""
    try:
        spec = TriggerSpec.model_validate(described)
    except ValidationError as error:
        raise InvalidInput("The trigger", field_errors(error)) from error
    wrong = check_name("label", spec.label) + _check_type(spec) + _check_target(spec)
    if too_many := check_expressions(spec.payload_template, "payload_template"):
        raise InvalidInput("The trigger", too_many)
    wrong += check_template(spec.payload_template, path="payload_template", names=NAMES[spec.trigger_type])
    if wrong:
        raise InvalidInput("The trigger", wrong)
    object_text("The trigger", spec.payload_template, field="payload_template")
    return spec if spec.job_type is None else spec.model_copy(update={"job_type": canonical(spec.job_type)})


def _check_type(spec: TriggerSpec) -> list[FieldError]:
    if spec.trigger_type == "schedule":
        wrong = [] if spec.timezone is None else check_zone("timezone", spec.timezone)
        wrong += check_cron(spec.cron_expr) if spec.cron_expr is not None else [_needed("cron_expr", "a schedule")]
        return wrong + _left_out(spec, "a schedule", "event_name")
    wrong = (
        _check_event(spec.event_name) if spec.event_name is not None else [_needed("event_name", "an event trigger")]
    )
    return wrong + _left_out(spec, "an event trigger", "cron_expr", "timezone")


def _check_event(name: str) -> list[FieldError]:
    wrong = check_name("event_name", name)
    if not wrong and not _EVENT_NAME.fullmatch(name):
        wrong.append(
            FieldError("event_name", "is neither a name such as invoice.paid nor all under one, such as invoice.*")
        )
    return wrong


def _check_target(spec: TriggerSpec) -> list[FieldError]:
    named = [kind for kind in TARGETS if getattr(spec, kind) is not None]
    if len(named) != 1:
        names = " and ".join(named) or "none"
        return [FieldError("target", f"name one of {', '.join(TARGETS)}; there is {names}")]
    if getattr(spec, named[0]) == ENGINE_RUN:
        return [FieldError(named[0], f"{ENGINE_RUN} {NOT_A_JOB}")]
    return check_name(named[0], getattr(spec, named[0]))


def _needed(field: str, by: str) -> FieldError:
    return FieldError(field, f"is needed by {by}")


def _left_out(spec: TriggerSpec, by: str, *fields: str) -> list[FieldError]:
    return [FieldError(field, f"does not apply to {by}") for field in fields if getattr(spec, field) is not None]
