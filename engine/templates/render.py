"""Templates filled in, and checked before they are used."""

from collections.abc import Collection, Mapping
from typing import Any

import orjson

from atlas.engine.templates.expressions import Expression, TemplateError, is_plain, references, split
from atlas.engine.templates.filters import MAX_RESULT, Budget, as_json, as_text, measure, within_budget
from atlas.errors import FieldError

DEEPEST = 32
TOO_DEEP = f"is nested deeper than {DEEPEST}"
TOO_LARGE = f"makes more than {MAX_RESULT // 1024} KiB"


def render(template: Any, scope: Mapping[str, Any], *, path: str = "", budget: Budget | None = None) -> Any:
    """The template with its expressions filled in: strings, and the strings inside lists and objects.

    A `budget` is shared with other renderings.
    """
    with within_budget(budget):
        rendered = _render(template, scope, path, DEEPEST)
    try:
        size = len(orjson.dumps(rendered))
    except TypeError as error:
        raise TemplateError(path, f"makes what is not JSON: {error}") from error
    if size > MAX_RESULT:
        raise TemplateError(path, TOO_LARGE)
    return rendered


def evaluate(template: str, scope: Mapping[str, Any], *, path: str = "", budget: Budget | None = None) -> Any:
    """A condition's value. Here alone the braces may be left out: `steps.ask.output.approved`."""
    with within_budget(budget):
        return _render_text(_braced(template), scope, path)


def check_template(
    template: Any, *, path: str = "", names: Collection[str] | None = None, condition: bool = False
) -> list[FieldError]:
    """What is wrong with a template, before it is used. With `names` it may use no others."""
    if isinstance(template, str):
        return _check_text(_braced(template) if condition else template, path, names)
    if not isinstance(template, Mapping | list):
        return []
    if path.count(".") + path.count("[") > DEEPEST:
        return [FieldError(path, TOO_DEEP)]
    return [
        error for inner, value in _items(template, path) for error in check_template(value, path=inner, names=names)
    ]


def _render(template: Any, scope: Mapping[str, Any], path: str, depth: int) -> Any:
    if depth == 0:
        raise TemplateError(path, TOO_DEEP)
    if isinstance(template, str):
        return _render_text(template, scope, path)
    if not isinstance(template, Mapping | list):
        return template
    values = [_render(value, scope, inner, depth - 1) for inner, value in _items(template, path)]
    return dict(zip(template, values, strict=True)) if isinstance(template, Mapping) else values


def _items(template: Mapping[str, Any] | list[Any], path: str) -> list[tuple[str, Any]]:
    """The values of an object or a list, each with its path."""
    if isinstance(template, Mapping):
        return [(f"{path}.{key}" if path else str(key), value) for key, value in template.items()]
    return [(f"{path}[{index}]", value) for index, value in enumerate(template)]


def _render_text(text: str, scope: Mapping[str, Any], path: str) -> Any:
    if is_plain(text):
        return text
    try:
        pieces = split(text)
        if len(pieces) == 1 and not isinstance(pieces[0], str):
            return _value(pieces[0], scope)
        parts = [piece if isinstance(piece, str) else as_text(_value(piece, scope)) for piece in pieces]
    except TemplateError as error:
        raise TemplateError(path, error.reason) from error
    if sum(map(len, parts)) > MAX_RESULT:
        raise TemplateError(path, TOO_LARGE)
    return "".join(parts)


def _value(expression: Expression, scope: Mapping[str, Any]) -> Any:
    """The expression's value, as plain JSON."""
    try:
        return orjson.loads(as_json(measure(expression.evaluate(scope))))
    except Exception as error:
        # A tenant's own code: a filter raises what it likes, and it is a mistake of the template whatever it is.
        cause = (error.__cause__ or error) if isinstance(error, orjson.JSONEncodeError) else error
        reason = f"{{{{ {expression.source} }}}}: {str(cause) or type(cause).__name__}"
    raise TemplateError("", reason)


def _check_text(text: str, path: str, names: Collection[str] | None) -> list[FieldError]:
    try:
        roots = {reference[0] for reference in references(text)}
    except TemplateError as error:
        return [FieldError(path, error.reason)]
    unknown = [] if names is None else sorted(roots - set(names))
    allowed = ", ".join(sorted(names or ())) or "none"
    return [FieldError(path, f"{name!r} is not defined here (known: {allowed})") for name in unknown]


def _braced(condition: str) -> str:
    return condition if "{{" in condition else f"{{{{ {condition} }}}}"
