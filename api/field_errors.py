"""What is wrong with a request, as fields and reasons in the caller's own names."""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel

from atlas.engine.synonyms import synonyms_of
from atlas.errors import FieldError

# A longer name is cut before names like it are looked for.
MAX_NAME_LENGTH = 50
# Reasons without the names of Python types.
_REASONS = {
    "missing": "is required",
    "extra_forbidden": "is unknown",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be a list",
}


def fields_of(errors: Iterable[Any], model: Any = None, body: Any = None) -> list[FieldError]:
    """Validation errors of pydantic as field and reason, without the values: they may be secret.

    With the body's `model`, an unknown field comes with the names like it. With the `body`, a field that was sent under
    a synonym is named so.
    """
    problems = []
    for error in errors:
        part, *rest = error["loc"] or ("",)
        steps = rest if part == "body" else error["loc"]
        # The names of a union's branches are ours, not the caller's.
        path = [step for step in steps if not (isinstance(step, str) and step.startswith(("list[", "function-")))]
        reason = _REASONS.get(error["type"]) or error["msg"].removeprefix("Value error, ")
        owner = _model_at(model, path[:-1]) if path else None
        if owner is not None and error["type"] == "extra_forbidden":
            reason = unknown_name(str(path[-1]), owner.model_fields)
        elif owner is not None:
            path[-1] = _sent_name(owner, path, body)
        problems.append(FieldError(".".join(map(str, path)), reason))
    return problems


def unknown_name(name: str, names: Collection[str]) -> str:
    """Why a name is refused, with the names that may have been meant."""
    near = get_close_matches(name[:MAX_NAME_LENGTH].lower(), sorted(names))
    if near:
        return f"is unknown; did you mean {' or '.join(near)}?"
    return (
        f"is unknown; known names are {', '.join(sorted(names))}"
        if names
        else "is unknown: the query has no names here"
    )


def _model_at(annotation: Any, path: Sequence[Any]) -> type[BaseModel] | None:
    """The model of the object at this place of a body; None where there is none, or it could be several."""
    models = [
        model
        for model in _models_in(annotation)
        if not path or isinstance(path[0], int) or path[0] in model.model_fields
    ]
    if len(models) != 1:
        return None
    if not path:
        return models[0]
    inner = annotation if isinstance(path[0], int) else models[0].model_fields[path[0]].annotation
    return _model_at(inner, path[1:])


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    models = [model for inner in get_args(annotation) for model in _models_in(inner)]
    return list(dict.fromkeys(models))


def _sent_name(model: type[BaseModel], path: Sequence[Any], body: Any) -> Any:
    try:
        for step in path[:-1]:
            body = body[step]
    except (KeyError, IndexError, TypeError):
        return path[-1]
    if not isinstance(body, dict) or path[-1] in body:
        return path[-1]
    synonyms = synonyms_of(model.model_fields, model.__name__)
    return next((name for name in body if synonyms.get(name) == path[-1]), path[-1])
