"""The public models, a module for each part of Atlas: the engine, the API and the client share them."""

from atlas.models.base import ApiModel, Document, Listed, Page, ProblemField, known

__all__ = ["ApiModel", "Document", "Listed", "Page", "ProblemField", "known"]
