"""Policy: which workflows may start, how often, and for how much. Every start is judged: requests, children, retries.

A rule applies when the workflow fits its pattern and everything it names is exceeded; the strictest that applies
decides: block, then review (a person must approve), then allow. Where none applies the workflow may start.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement

RULES = statement("engine/policy/sql/load_rules.sql")
LOCK = statement("engine/policy/sql/lock_policy.sql")
USAGE = statement("engine/policy/sql/load_usage.sql")
DISABLED = statement("engine/policy/sql/load_disabled.sql")

# From the mildest to the strictest.
EFFECTS = ("allow", "review", "block")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Without a tenant it holds for all of them."""

    id: UUID
    tenant_id: UUID | None
    label: str
    effect: str
    workflow: str
    except_workflows: Sequence[str]
    spend_above_cents: int | None
    spend_per_day_cents: int | None
    runs_per_day: int | None

    @property
    def counts(self) -> bool:
        """Whether it looks at what else was started today."""
        return self.runs_per_day is not None or self.spend_per_day_cents is not None

    def fits(self, tenant_id: UUID, workflow: str) -> bool:
        if self.tenant_id not in (None, tenant_id):
            return False
        return _fits(workflow, self.workflow) and not any(_fits(workflow, pattern) for pattern in self.except_workflows)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict: `allow`, `review` or `block`, why, and by which rule and figures."""

    effect: str
    reason: str
    facts: dict[str, Any] = field(default_factory=dict)


class Policy:
    """The rules and today's figures of some tenants. Accepting an intent counts for the next."""

    def __init__(self, rules: Sequence[Rule], usage: Iterable[Any], disabled: Collection[tuple[UUID, str]]) -> None:
        self._rules = rules
        self._disabled = disabled
        # Runs and cents by rule and tenant, added up once: names are many, and each intent of a batch asks for these.
        self._today: dict[tuple[UUID, UUID], tuple[int, int]] = {}
        for row in usage:
            self._add(row["tenant_id"], row["workflow"], row["runs"], int(row["spend_cents"]))

    def rules_for(self, tenant_id: UUID, workflow: str) -> list[Rule]:
        """The rules that judge this workflow of a tenant, whether they apply now or not."""
        return [rule for rule in self._rules if rule.fits(tenant_id, workflow)]

    def judge(self, tenant_id: UUID, workflow: str, spend_cents: int = 0, *, is_counted: bool = False) -> Verdict:
        """The verdict on a start of this workflow now. `is_counted`: today's figures include it already (a retry)."""
        if (tenant_id, workflow) in self._disabled:
            return Verdict("block", f"The workflow {workflow} is disabled.", {"disabled": True})
        verdicts = [
            Verdict(rule.effect, reason, {"rule": rule.label, "rule_id": str(rule.id), "effect": rule.effect})
            for rule in self.rules_for(tenant_id, workflow)
            if (reason := self._applies(rule, tenant_id, spend_cents, is_counted)) is not None
        ]
        if not verdicts:
            return Verdict("allow", "No rule is against it.")
        return max(verdicts, key=lambda verdict: EFFECTS.index(verdict.effect))

    def count(self, tenant_id: UUID, workflow: str, spend_cents: int) -> None:
        """One more was started."""
        self._add(tenant_id, workflow, 1, spend_cents)

    def _add(self, tenant_id: UUID, workflow: str, runs: int, spend_cents: int) -> None:
        for rule in self._rules:
            if rule.counts and rule.fits(tenant_id, workflow):
                so_far, spent = self._today.get((rule.id, tenant_id), (0, 0))
                self._today[rule.id, tenant_id] = (so_far + runs, spent + spend_cents)

    def _applies(self, rule: Rule, tenant_id: UUID, spend_cents: int, is_counted: bool) -> str | None:
        """Why a rule applies, or None. It does when everything it names is exceeded."""
        reasons: list[str] = []
        if rule.spend_above_cents is not None:
            if spend_cents <= rule.spend_above_cents:
                return None
            reasons.append(f"it spends {spend_cents} cents, more than {rule.spend_above_cents}")
        runs, spent = self._today.get((rule.id, tenant_id), (0, 0))
        if not is_counted:
            runs, spent = runs + 1, spent + spend_cents
        if rule.runs_per_day is not None:
            if runs <= rule.runs_per_day:
                return None
            reasons.append(f"it would be run {runs} of today, more than {rule.runs_per_day}")
        if rule.spend_per_day_cents is not None:
            if spent <= rule.spend_per_day_cents:
                return None
            reasons.append(f"today's spend would be {spent} cents, more than {rule.spend_per_day_cents}")
        return f"Rule {rule.label!r} says {rule.effect}: {' and '.join(reasons) or 'it is for this workflow'}."


def rule_documents(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Rules as JSON values, in an order that does not depend on when they are read."""
    values = [{**asdict(rule), "id": str(rule.id), "tenant_id": _text(rule.tenant_id)} for rule in rules]
    return sorted(values, key=lambda value: value["id"])


def _text(id: UUID | None) -> str | None:
    return None if id is None else str(id)


def _fits(workflow: str, pattern: str) -> bool:
    # Only * and ? mean more than themselves; fnmatch would read a set of characters in brackets.
    return fnmatchcase(workflow, pattern.replace("[", "[[]"))


async def load_policy(conn: Connection, subjects: Iterable[tuple[UUID, str]], *, decides: bool = True) -> Policy:
    """The policy for (tenant, workflow). Transactions that load a tenant's counting rules follow one another.

    One that `decides` nothing does not wait for those that do.
    """
    pairs = sorted(set(subjects), key=str)
    tenants = sorted({tenant for tenant, _ in pairs})
    rules = [Rule(**row) for row in await fetch(conn, RULES, tenants=tenants)]
    counted = [tenant for tenant in tenants if any(rule.counts and rule.tenant_id in (None, tenant) for rule in rules)]
    usage: list[Any] = []
    if counted:
        if decides:
            await fetch(conn, LOCK, tenants=[str(tenant) for tenant in counted])
        # Read in a statement of its own, so that it sees what the decision before this one counted.
        usage = await fetch(conn, USAGE, tenants=counted)
    return Policy(rules, usage, await load_disabled(conn, pairs))


async def load_disabled(conn: Connection, pairs: Sequence[tuple[UUID, str]]) -> set[tuple[UUID, str]]:
    """Those of these (tenant, workflow) that are disabled."""
    rows = await fetch(conn, DISABLED, tenants=[tenant for tenant, _ in pairs], keys=[key for _, key in pairs])
    return {(row["tenant_id"], row["key"]) for row in rows}


async def check_policy(conn: Connection, tenant_id: UUID, workflow: str, *, spend_cents: int = 0) -> Verdict:
    """The verdict on a request now, without making one."""
    policy = await load_policy(conn, [(tenant_id, workflow)], decides=False)
    return policy.judge(tenant_id, workflow, spend_cents)
