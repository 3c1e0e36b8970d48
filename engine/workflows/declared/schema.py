"""The JSON Schema of declared workflows, for editors. It is made of the models that the checker uses."""

from functools import lru_cache
from typing import Any

from atlas.engine.workflows.declared.document import Document


@lru_cache(maxsize=1)
def document_schema() -> dict[str, Any]:
    """The schema of a document. The checker also reads the graph and the templates, so what fits may still be wrong."""
    return Document.model_json_schema(by_alias=True)
