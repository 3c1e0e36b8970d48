"""Effects: calls of providers outside of this database, and what is known of them."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias, get_args
from uuid import UUID

from pydantic import Field

from atlas.models.base import ApiModel, Document, known

EffectState: TypeAlias = Literal["intended", "done", "unknown", "refused"]
KnownEffectState: TypeAlias = Annotated[str, known(*get_args(EffectState))]
EffectOutcome: TypeAlias = Literal["done", "not_done"]


class Effect(ApiModel):
    """A call of a provider that must not be repeated blindly."""

    id: UUID
    tenant_id: UUID
    tenant: str | None = Field(default=None, description="The slug of the tenant.")
    job_id: UUID
    job_type: str
    step: str = Field(description="The path of the step in a run; empty for a job.", examples=[""])
    name: str = Field(description="The part before the first dot is the provider.", examples=["stripe.charge"])
    key: str = Field(description="The idempotency key that the provider gets, the same in every attempt.")
    state: KnownEffectState = Field(
        description="`unknown` if no one knows whether it was made, also where its attempt has died."
    )
    question: str | None = Field(
        description="What a person is asked; null unless the state is unknown.",
        examples=["Was stripe.charge 9c1 made?"],
    )
    attempt_no: int = Field(description="The attempt that called last.")
    reference: str | None = Field(description="What the provider calls it.", examples=["ch_1"])
    other_references: list[str] = Field(
        description="References that other attempts got: if they differ, the effect was made more than once.",
        examples=[[]],
    )
    detail: Document
    created_at: datetime
    intended_at: datetime = Field(description="When the last call began.")
    ended_at: datetime | None
    settled_by: str | None = Field(description="Who settled it; null where no person did.")
    settled_at: datetime | None


class Settlement(ApiModel):
    """What a person said about an effect."""

    id: UUID
    state: Annotated[str, known("done", "refused")]
    reference: str | None
    woken: bool = Field(description="Whether its job continues now.")
