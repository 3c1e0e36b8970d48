"""Reconciliations: how the effect ledger and a provider differ."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias, get_args
from uuid import UUID

from pydantic import Field

from atlas.models.base import ApiModel, known

DifferenceKind: TypeAlias = Literal["not_there", "not_here", "twice", "found", "refused_here", "other_reference"]
KnownDifferenceKind: TypeAlias = Annotated[str, known(*get_args(DifferenceKind))]


class EffectDifference(ApiModel):
    """An effect about which the ledger and the provider disagree."""

    kind: KnownDifferenceKind = Field(
        description="`not_there`: done here, not at the provider; `not_here`: at the provider, not in the ledger; "
        "`twice`: the provider made a key more than once; `found`: unknown here, made there; `refused_here`: refused "
        "here, made there; `other_reference`: made under another reference."
    )
    key: str | None = Field(description="The idempotency key; null where the provider shows none.")
    effect_id: UUID | None = Field(description="The effect in the ledger.")
    job_id: UUID | None
    name: str | None = Field(description="The name of the effect.", examples=["stripe.charge"])
    reference: str | None = Field(description="The reference in the ledger.")
    provider_references: list[str] = Field(description="What the provider calls it.", examples=[["ch_1"]])


class EffectReport(ApiModel):
    """The last reconciliation with a provider."""

    provider: str = Field(description="The part of the names of its effects before the dot.", examples=["stripe"])
    since: datetime = Field(description="Effects since then were compared.")
    visible_before: datetime = Field(description="Younger effects may not be listed yet, and are not missed.")
    finished_at: datetime
    effects: int = Field(description="How many effects of the ledger were compared.")
    entries: int = Field(description="How many the provider listed.")
    in_doubt: int = Field(description="How many are unknown here and were not found there.")
    differences: int = Field(description="How many differences there are, without those that were settled.")
    settled: int = Field(description="How many unknown effects were settled as done.")
    counts: dict[str, int] = Field(description="How many differences there are of each kind.", examples=[{"twice": 1}])
    rows: list[EffectDifference] = Field(description="The first differences of each kind.", examples=[[]])
