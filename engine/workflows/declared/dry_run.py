"""A dry run: what a declared workflow would do with an input, decided without doing any of it.

The outputs of steps are not known before they run. A caller may suppose some. What reads another stays as it is
written, and is named with the steps that it waits for. Steps that begin are taken to succeed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any, Literal

import orjson

from atlas.engine.schemas import schema_errors
from atlas.engine.templates import Budget, TemplateError, evaluate, references, render
from atlas.engine.workflows.declared.check import check_document, is_time
from atlas.engine.workflows.declared.document import Document, Step
from atlas.engine.workflows.declared.interpret import MAX_ITEMS
from atlas.engine.workflows.declared.targets import Targets
from atlas.errors import FieldError
from atlas.models.workflows import DryRun

# Items of an `each` that are shown.
MAX_SHOWN = 10
# More is left out of what is shown: each of 200 steps may fill in 256 KiB ten times.
MAX_BYTES = 1024 * 1024
# A quarter of what the templates of a run may take, so that it ends well within a helper's time.
MAX_WORK = 64 * 1024 * 1024
# The id of the run that there is not.
NO_RUN = "00000000-0000-0000-0000-000000000000"

Decision = Literal["runs", "depends", "skipped", "fails", "unreached"]


@dataclass(slots=True)
class _StepPlan:
    """What would become of a step.

    `depends`: that is decided by outputs that are not known; `unreached`: a step before it would fail.
    """

    id: str
    kind: str
    target: Any
    decision: Decision = "runs"
    reason: str = "Nothing keeps it from running."
    items: int | None = None
    inputs: list[Any] = field(default_factory=list)
    pending: list[FieldError] = field(default_factory=list)
    errors: list[FieldError] = field(default_factory=list)
    warnings: list[FieldError] = field(default_factory=list)

    def decide(self, decision: Decision, reason: str) -> None:
        self.decision, self.reason = decision, reason


def dry_run(
    value: Mapping[str, Any],
    input: Mapping[str, Any],
    outputs: Mapping[str, Any],
    targets: Targets,
    *,
    requested_by: str,
) -> DryRun:
    """Follow a document with this input, and with these outputs of some of its steps.

    It takes up to seconds, so a server calls it in a helper process.
    """
    errors = check_document(value)
    if errors:
        return _result(errors)
    document = Document.model_validate(value)
    ids = {step.id for step in document.steps}
    errors = [FieldError(f"outputs.{id}", f"there is no step {id!r}") for id in outputs if id not in ids]
    errors += [_below("input", error) for error in schema_errors(document.input_schema, input)]
    if errors:
        return _result(errors)
    return _DryRun(document, input, outputs, targets, requested_by).run()


class _DryRun:
    """One pass over the steps, each after those that it needs."""

    def __init__(
        self,
        document: Document,
        input: Mapping[str, Any],
        outputs: Mapping[str, Any],
        targets: Targets,
        requested_by: str,
    ) -> None:
        self._document = document
        self._outputs = outputs
        self._targets = targets
        self._numbers = {step.id: number for number, step in enumerate(document.steps)}
        facts = {"id": NO_RUN, "workflow": document.key, "requested_by": requested_by}
        self._scope: dict[str, Any] = {"input": input, "run": facts}
        self._results: dict[str, dict[str, Any]] = {}
        self._plans: dict[str, _StepPlan] = {}
        # The steps whose output is not known, and those of which it is not known whether they run.
        self._unknown: set[str] = set()
        self._undecided: set[str] = set()
        self._budget = Budget(MAX_WORK)
        self._size = 0

    def run(self) -> DryRun:
        order = TopologicalSorter({step.id: step.needs for step in self._document.steps}).static_order()
        for id in order:
            self._follow(self._document.step(id))
        steps = [self._plans[step.id] for step in self._document.steps]
        whole = _StepPlan("", "output", None)
        output = None if any(step.errors for step in steps) else self._output(whole)
        return _result(whole.errors, steps, output, whole.pending, is_shortened=self._size > MAX_BYTES)

    def _follow(self, step: Step) -> None:
        plan = self._plans[step.id] = _StepPlan(step.id, step.kind, getattr(step, step.kind))
        self._decide(step, plan)
        if plan.decision in ("runs", "depends"):
            self._fill_in(step, plan)
        if plan.errors:
            plan.decide("fails", "The run would fail here.")
        is_skipped = plan.decision == "skipped"
        output = None if is_skipped else self._outputs.get(step.id)
        self._results[step.id] = {"status": "skipped" if is_skipped else "succeeded", "output": output}
        if plan.decision == "depends":
            self._undecided.add(step.id)
        if not is_skipped and step.kind != "sleep" and step.id not in self._outputs:
            self._unknown.add(step.id)

    def _decide(self, step: Step, plan: _StepPlan) -> None:
        needs = {id: self._plans[id].decision for id in step.needs}
        failing = [id for id, decision in needs.items() if decision in ("fails", "unreached")]
        skipped = [id for id, decision in needs.items() if decision == "skipped"]
        open = [id for id, decision in needs.items() if decision == "depends"]
        if failing:
            plan.decide("unreached", f"The run would have failed before it, by {_named(failing)}.")
        elif skipped:
            plan.decide("skipped", f"It needs {_named(skipped)}, which would be skipped.")
        elif step.if_ is not None:
            self._decide_condition(step, plan)
        if open and plan.decision == "runs":
            plan.decide("depends", f"It needs {_named(open)}, which may be skipped.")

    def _decide_condition(self, step: Step, plan: _StepPlan) -> None:
        if isinstance(step.if_, str):
            path = f"{self._path(step)}.if"
            waits = self._waits(step, step.if_ if "{{" in step.if_ else f"{{{{ {step.if_} }}}}", {})
            if waits:
                plan.decide("depends", f"Its condition is decided by the output of {_named(waits)}.")
                return
            try:
                holds = bool(evaluate(step.if_, self._scope_of(step), path=path, budget=self._budget))
            except TemplateError as error:
                plan.errors.append(FieldError(path, error.reason))
                return
        else:
            holds = bool(step.if_)
        plan.decide("runs" if holds else "skipped", f"Its condition is {'true' if holds else 'false'}.")

    def _fill_in(self, step: Step, plan: _StepPlan) -> None:
        """The step's inputs, one for each of its items."""
        scope, waits = self._scope_of(step), dict[str, list[str]]()
        scopes = [scope]
        if step.each is not None:
            items = self._fill(step, plan, step.each, scope, f"{self._path(step)}.each", {})
            if plan.errors:
                return
            if plan.pending:
                waits = dict.fromkeys(("item", "index"), self._waits(step, step.each, {}))
            elif not isinstance(items, list) or len(items) > MAX_ITEMS:
                reason = f"is not a list of at most {MAX_ITEMS} items"
                plan.errors.append(FieldError(f"{self._path(step)}.each", reason))
                return
            else:
                plan.items = len(items)
                scopes = [{**scope, "item": item, "index": index} for index, item in enumerate(items[:MAX_SHOWN])]
        for item_scope in scopes:
            self._fill_one(step, plan, item_scope, waits)
        self._warn(step, plan)

    def _fill_one(self, step: Step, plan: _StepPlan, scope: dict[str, Any], waits: Mapping[str, list[str]]) -> None:
        path = self._path(step)
        before = len(plan.pending)
        filled = self._fill(step, plan, step.with_, scope, f"{path}.with", waits)
        is_whole = len(plan.pending) == before
        self._size += len(orjson.dumps(filled))
        if self._size <= MAX_BYTES:
            plan.inputs.append(filled)
        if step.kind in ("sleep", "approval"):
            plan.target = self._fill(step, plan, getattr(step, step.kind), scope, f"{path}.{step.kind}", waits)
            if step.kind == "sleep" and not is_time(plan.target):
                plan.errors.append(FieldError(f"{path}.sleep", f"{plan.target!r} is neither a duration nor a time"))
        target = self._targets.get((step.kind, str(plan.target)))
        if target is not None and is_whole and not plan.errors:
            wrong = schema_errors(target.schema, filled, has_formats=target.has_formats)
            plan.errors += [_below(f"{path}.with", error) for error in wrong]

    def _warn(self, step: Step, plan: _StepPlan) -> None:
        target = self._targets.get((step.kind, str(plan.target)))
        if target is not None and not target.is_known:
            near = f"; similar: {', '.join(target.near)}" if target.near else ""
            reason = f"nothing has published the {target.kind} {plan.target!r}{near}"
            plan.warnings.append(FieldError(f"{self._path(step)}.{step.kind}", reason))

    def _output(self, whole: _StepPlan) -> Any:
        scope = {**self._scope, "steps": self._results}
        if self._document.output is not None:
            return self._fill(None, whole, self._document.output, scope, "output", {})
        ended = [step.id for step in self._document.last if self._plans[step.id].decision != "skipped"]
        output = {id: f"{{{{ steps.{id}.output }}}}" for id in ended}
        return self._fill(None, whole, output, scope, "output", {})

    def _fill(
        self,
        step: Step | None,
        plan: _StepPlan,
        template: Any,
        scope: Mapping[str, Any],
        path: str,
        waits: Mapping[str, list[str]],
    ) -> Any:
        """The template with all filled in that is known; the rest stays as it is written, and is noted."""
        if isinstance(template, Mapping):
            return {
                name: self._fill(step, plan, part, scope, f"{path}.{name}", waits) for name, part in template.items()
            }
        if isinstance(template, list):
            return [
                self._fill(step, plan, part, scope, f"{path}[{number}]", waits) for number, part in enumerate(template)
            ]
        if not isinstance(template, str):
            return template
        awaited = self._waits(step, template, waits)
        if awaited:
            plan.pending.append(FieldError(path, f"is known when {_named(awaited)} has ended"))
            return template
        try:
            return render(template, scope, path=path, budget=self._budget)
        except TemplateError as error:
            plan.errors.append(FieldError(path, error.reason))
            return template

    def _waits(self, step: Step | None, template: Any, waits: Mapping[str, list[str]]) -> list[str]:
        """The steps whose outputs a template reads and that are not known; for the output, of all steps."""
        names: set[str] = set()
        for root, *path in references(template):
            if root == "steps":
                read = path[:1] or [
                    step_id for step_id in self._results if step is None or step_id in self._before(step)
                ]
                unknown = self._undecided if path[1:2] == ["status"] else self._unknown | self._undecided
                names.update(set(read) & unknown)
            elif root == "event" and step is not None:
                names.update((self._unknown | self._undecided) & {self._last_event(step)})
            else:
                names.update(waits.get(root, ()))
        return sorted(names, key=self._numbers.__getitem__)

    def _scope_of(self, step: Step) -> dict[str, Any]:
        """What the templates of a step may read, as in a run."""
        before = self._before(step)
        scope = dict(self._scope)
        if before:
            scope["steps"] = {id: result for id, result in self._results.items() if id in before}
        event = self._last_event(step)
        if event is not None:
            scope["event"] = self._results[event]["output"]
        return scope

    def _before(self, step: Step) -> frozenset[str]:
        return self._document.ancestors(step.id)

    def _last_event(self, step: Step) -> str | None:
        before = self._before(step)
        events = [step.id for step in self._document.steps if step.id in before and step.kind == "event"]
        return events[-1] if events else None

    def _path(self, step: Step) -> str:
        return f"steps[{self._numbers[step.id]}]"


def _result(
    errors: list[FieldError],
    steps: Sequence[_StepPlan] = (),
    output: Any = None,
    pending: Sequence[FieldError] = (),
    *,
    is_shortened: bool = False,
) -> DryRun:
    """The dry run of these steps. `errors` are those of the document, the input and the output."""
    return DryRun.model_validate(
        {
            "ok": not errors and not any(step.errors for step in steps),
            "errors": errors,
            "steps": steps,
            "output": output,
            "pending": pending,
            "is_shortened": is_shortened,
        }
    )


def _named(ids: Iterable[str]) -> str:
    return " and ".join(ids)


def _below(path: str, error: FieldError) -> FieldError:
    """The same error, of a value that is part of another."""
    return FieldError(f"{path}.{error.field}" if error.field else path, error.reason)
