"""The job type `effects.reconcile`: reconciles a provider in a worker, for a trigger to start on a schedule."""

from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from atlas.actors import system
from atlas.engine.effects.adapters import EffectAdapter, find_adapter, register_adapter
from atlas.engine.effects.reconcile import ReconcileOptions, reconcile
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.verdicts import PermanentError
from atlas.engine.tenants.tenants import find_tenant

RECONCILE = "effects.reconcile"

# The tenant whose jobs may reconcile a provider, by the provider.
_tenants: dict[str, str] = {}


class ReconcileInput(BaseModel):
    """Which provider to reconcile, and how many hours back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: str
    hours: float = Field(default=24, gt=0, le=24 * 366)
    settle: bool = False


def register_reconciliation(provider: str, adapter: EffectAdapter, *, tenant: str) -> None:
    """Register an adapter, and let the jobs `effects.reconcile` of this tenant use it.

    The report is the job's output. It shows the whole account and effects of all tenants: name a tenant of operators.
    """
    register_adapter(provider, adapter)
    _tenants[provider] = tenant

    @job(RECONCILE, max_retries=3)
    async def reconcile_provider(input: ReconcileInput, ctx: JobContext) -> dict[str, Any]:
        """Compare the effect ledger with a provider; the output is the report."""
        async with ctx.pool.acquire() as conn:
            slug = (await find_tenant(conn, str(ctx.tenant_id))).slug
        if _tenants.get(input.provider) != slug:
            raise PermanentError(
                f"The jobs of tenant {slug} may not reconcile {input.provider}.",
                remedy=f"register_reconciliation({input.provider!r}, …, tenant={slug!r}) in the worker allows it.",
            )
        since = datetime.now(UTC) - timedelta(hours=input.hours)
        options = ReconcileOptions(input.provider, since, settle=input.settle)
        report = await reconcile(ctx.pool, find_adapter(input.provider), options, actor=system(ctx.worker_id))
        return report.model_dump(mode="json")
