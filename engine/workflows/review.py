"""The subject of a review: what a person approves beside the input.

A review is requested for one definition of a workflow (a version of its document, or the build of its code) under
certain rules. Either may change while the review is pending, and the approval is then for something that the approver
has not seen. So the subject is stored with the approval, is part of its hash, and is compared when it is decided.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.policy.judge import Policy, Verdict, load_policy, rule_documents
from atlas.errors import Conflict

DEFINITIONS = statement("engine/workflows/sql/workflow_definitions.sql")

Subject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """A version of a declared workflow. Without an id the workflow is code."""

    id: UUID | None = None
    version: int = 0


@dataclass(frozen=True, slots=True)
class ChildVerdict:
    """The verdict on a child's start. `is_counted`: a rule counts such starts; `subject`: what a person reviews."""

    verdict: Verdict
    is_counted: bool
    subject: Subject | None = None


class SubjectChanged(Conflict):
    """The workflow or a rule changed while its review was pending. `changes` says what, each in a sentence."""

    def __init__(self, approval_id: UUID, changes: list[str]) -> None:
        super().__init__(
            f"Approval {approval_id} is for another definition: {' '.join(changes)}",
            remedy="Reject it and request the workflow again, so that a person reviews what would run now.",
        )
        self.changes = changes


async def load_subjects(
    conn: Connection, policy: Policy, starts: Iterable[tuple[UUID, str]]
) -> dict[tuple[UUID, str], Subject]:
    """The subject of a review of each (tenant, workflow) as it would start now."""
    pairs = sorted(set(starts), key=str)
    rows = await fetch(conn, DEFINITIONS, tenants=[tenant for tenant, _ in pairs], keys=[key for _, key in pairs])
    definitions = {(row["tenant_id"], row["key"]): row for row in rows}
    return {(tenant, key): _subject(key, definitions.get((tenant, key)), policy, tenant) for tenant, key in pairs}


async def judge_children(
    conn: Connection, starts: Sequence[tuple[UUID, str]], _is_repeated: bool = False
) -> list[ChildVerdict]:
    """The verdict on a start of each (tenant, workflow) as a child."""
    policy = await load_policy(conn, starts, decides=False)
    verdicts = {start: policy.judge(*start) for start in set(starts)}
    reviewed = [start for start, verdict in verdicts.items() if verdict.effect == "review"]
    subjects = await load_subjects(conn, policy, reviewed) if reviewed else {}
    counted = {start: any(rule.counts for rule in policy.rules_for(*start)) for start in verdicts}
    return [ChildVerdict(verdicts[start], counted[start], subjects.get(start)) for start in starts]


async def require_unchanged(conn: Connection, approval_id: UUID, tenant_id: UUID, subject: Subject) -> None:
    """Raise SubjectChanged if the workflow or the rules differ from those that were reviewed."""
    start = (tenant_id, subject["workflow"])
    policy = await load_policy(conn, [start], decides=False)
    now = (await load_subjects(conn, policy, [start]))[start]
    if changes := _differences(subject, now):
        raise SubjectChanged(approval_id, changes)


def document_of(subject: Subject) -> DocumentVersion:
    """The document that was reviewed."""
    id = subject.get("document_id")
    return DocumentVersion(None, 0) if id is None else DocumentVersion(UUID(id), subject["version"])


def _subject(workflow: str, definition: Any, policy: Policy, tenant_id: UUID) -> Subject:
    is_declared = definition is not None and definition["kind"] == "declared"
    return {
        "workflow": workflow,
        "version": definition["version"] if is_declared else None,
        "document_id": str(definition["id"]) if is_declared else None,
        "digest": None if definition is None else definition["digest"],
        "rules": rule_documents(policy.rules_for(tenant_id, workflow)),
    }


def _differences(before: Subject, now: Subject) -> list[str]:
    """What changed, each as a sentence."""
    changes: list[str] = []
    if (before["document_id"], before["digest"]) != (now["document_id"], now["digest"]):
        changes.append(f"The workflow {before['workflow']} was {_definition(before)} and is {_definition(now)} now.")
    rules_before, rules_now = _by_id(before), _by_id(now)
    for id in sorted(rules_before.keys() | rules_now.keys()):
        changes += _rule_differences(rules_before.get(id), rules_now.get(id))
    return changes


def _rule_differences(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> list[str]:
    if before is None or now is None:
        rule, change = (now, "added") if before is None else (before, "removed")
        assert rule is not None
        return [f"The rule {rule['label']!r} ({rule['effect']}) was {change}."]
    return [
        f"The rule {before['label']!r} had {name} {before[name]} and has {now[name]} now."
        for name in before
        if before[name] != now.get(name)
    ]


def _by_id(subject: Subject) -> dict[str, Mapping[str, Any]]:
    return {rule["id"]: rule for rule in subject["rules"]}


def _definition(subject: Subject) -> str:
    if subject["document_id"] is not None:
        return f"version {subject['version']}"
    return "unknown" if subject["digest"] is None else f"build {subject['digest'][:12]}"
