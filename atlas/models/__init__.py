"""The requests and responses of the API, typed: a module for each part of it."""

from atlas.models.base import ApiModel, Document, Listed, Page, ProblemField, known

__all__ = ["ApiModel", "Document", "Listed", "Page", "ProblemField", "known"]
