"""Judges retries of runs: a run that policy forbids today is not started again by a retry."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import orjson

from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.policy.judge import Policy, Verdict, load_policy, rule_documents

RUNS = statement("engine/policy/sql/runs_to_retry.sql")


async def refused_retries(conn: Connection, job_ids: Sequence[UUID], *, tenant_id: UUID | None) -> dict[UUID, Verdict]:
    """Those of these jobs that are runs which policy does not let start again, with the verdict.

    A run whose start a person approved under the same rules needs no second review.
    """
    runs = await fetch(conn, RUNS, ids=list(job_ids), tenant_id=tenant_id)
    if not runs:
        return {}
    policy = await load_policy(conn, [(run["tenant_id"], run["workflow"]) for run in runs], decides=False)
    refused: dict[UUID, Verdict] = {}
    for run in runs:
        verdict = _judge(policy, run)
        if verdict.effect != "allow":
            refused[run["id"]] = verdict
        elif not run["is_counted"]:
            # One of an earlier day: together they may be more than a rule allows for today.
            policy.count(run["tenant_id"], run["workflow"], run["spend_cents"])
    return refused


def _judge(policy: Policy, run: Any) -> Verdict:
    verdict = policy.judge(run["tenant_id"], run["workflow"], run["spend_cents"], is_counted=run["is_counted"])
    if verdict.effect == "review" and run["approved_rules"] is not None:
        rules = rule_documents(policy.rules_for(run["tenant_id"], run["workflow"]))
        if orjson.loads(run["approved_rules"]) == rules:
            return replace(verdict, effect="allow")
    return verdict
