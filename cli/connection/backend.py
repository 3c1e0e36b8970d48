"""What `enqueue`, `status`, `jobs list`, `show` and `watch` need of an installation, over HTTP or on its database.

They run most often, and start on the database in half the time of the API within the process (`on_atlas`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

if TYPE_CHECKING:
    from atlas.cli.access.tenant_names import TenantNames
    from atlas.engine.jobs.enqueue import Enqueued
    from atlas.engine.jobs.lists.find import JobRow
    from atlas.engine.jobs.lists.job_list import JobPage
    from atlas.engine.jobs.new_jobs.new_job import NewJob
    from atlas.models.explain import Explanation
    from atlas.models.system import SystemStatus


@dataclass(frozen=True, slots=True)
class EnqueueOptions:
    """A job to enqueue. Without a tenant it belongs to the token's tenant, or to the tenant `system`."""

    job: "NewJob"
    tenant: str | None
    # Its name or its id.
    host: str | None


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which jobs to list."""

    status: str | None
    job_type: str | None
    tenant: str | None
    before: UUID | None
    limit: int
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobDetails:
    """A job, its tenant's slug, its attempts, and why it is where it is."""

    job: "JobRow"
    tenant: str | None
    attempts: Sequence[Mapping[str, Any]]
    explanation: "Explanation"

    @property
    def document(self) -> dict[str, Any]:
        """The job as a document."""
        return {**asdict(self.job), "tenant": self.tenant}


class Backend(Protocol):
    """An installation of Atlas."""

    async def enqueue(self, options: EnqueueOptions) -> "Enqueued": ...

    async def find_job_id(self, text: str, *, option: str = "ID") -> UUID: ...

    async def tenant_names(self, jobs: "Sequence[JobRow]") -> "TenantNames": ...

    async def list_jobs(self, options: ListOptions) -> "JobPage": ...

    async def show(self, job_id: UUID) -> JobDetails: ...

    async def status(self) -> "SystemStatus": ...
