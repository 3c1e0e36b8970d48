"""The base of all public models. The engine returns these models, the API sends them, and the client reads them.

The client ignores fields that a newer API adds. Where a newer API may add values, the type is a plain string with the
known values in its schema.
"""

from datetime import datetime
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from atlas.etags import etag_of

T = TypeVar("T")

Document: TypeAlias = dict[str, Any]


def known(*values: str) -> Any:
    """The values that a text has by now, for its schema."""
    return Field(json_schema_extra={"enum": [*values]})


class ApiModel(BaseModel):
    """A public model, built from keywords or from an object with the same attributes."""

    # Each model is built when it is first used: a program uses few of them.
    model_config = ConfigDict(extra="ignore", from_attributes=True, frozen=True, defer_build=True)


class EditableModel(ApiModel):
    """A public model of something that people edit."""

    # The fields that its entity tag is made of.
    tagged: ClassVar[tuple[str, ...]]

    @property
    def etag(self) -> str:
        """The entity tag of what an edit can change, as the header ETag has it."""
        return etag_of(*(getattr(self, name) for name in self.tagged))


class Page(ApiModel, Generic[T]):
    """A part of a list, and where the next part begins."""

    items: list[T]
    next_cursor: str | None = Field(
        default=None, description="Send it as `cursor` for the next page; null after the last."
    )


class SearchedPage(Page[T], Generic[T]):
    """A part of a list whose rows are compared with the filters one by one."""

    searched_back_to: datetime | None = Field(
        default=None,
        description="Set on a page that ends before its limit and has a next one: older rows were not compared yet.",
    )


class Listed(ApiModel, Generic[T]):
    """A whole list."""

    items: list[T]


class ProblemField(ApiModel):
    """One mistake: where it is, and why."""

    field: str = Field(description="Where it is in the body, the query or the path; empty for the whole.")
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason
