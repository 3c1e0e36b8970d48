"""Templates filled in, and checked before anyone uses them."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import orjson

from atlas.engine.templates.budget import EXPRESSION_WORK, Budget, spend, within_budget
from atlas.engine.templates.expressions import Expression, TemplateError, cut, references
from atlas.engine.templates.filters import LARGEST_RESULT
from atlas.engine.templates.plain import as_text, plain
from atlas.errors import FieldError

DEEPEST = 32


def render(
    template: Any,
    scope: Mapping[str, Any],
    *,
    path: str = "",
    limit: int = LARGEST_RESULT,
    budget: Budget | None = None,
) -> Any:
    """The template with its expressions filled in: strings, and the strings inside lists and objects.

    A `budget` is shared with other renderings.
    """
    rendered = _within_bounds(template, scope, path, budget)
    try:
        size = len(orjson.dumps(rendered))
    except TypeError as error:
        raise TemplateError([FieldError(path, f"makes what is not JSON: {error}")]) from error
    if size > limit:
        raise TemplateError([FieldError(path, f"makes more than {limit // 1024} KiB")])
    return rendered


def evaluate(template: str, scope: Mapping[str, Any], *, path: str = "", budget: Budget | None = None) -> Any:
    """A condition's value. Here alone the braces may be left out: `steps.ask.output.approved`."""
    text = template if "{{" in template else f"{{{{ {template} }}}}"
    return _within_bounds(text, scope, path, budget)


def _within_bounds(template: Any, scope: Mapping[str, Any], path: str, budget: Budget | None) -> Any:
    with within_budget(budget):
        return _render(template, scope, path, DEEPEST)


def check_template(
    template: Any, *, path: str = "", names: Collection[str] | None = None, condition: bool = False
) -> list[FieldError]:
    """What is wrong with a template, before anyone uses it. With `names` it may use no others."""
    if isinstance(template, str):
        return _check_text(template, path, names, condition)
    if isinstance(template, Mapping):
        found = [(f"{path}.{key}" if path else str(key), value) for key, value in template.items()]
    elif isinstance(template, list):
        found = [(f"{path}[{place}]", value) for place, value in enumerate(template)]
    else:
        return []
    if path.count(".") + path.count("[") > DEEPEST:
        return [FieldError(path, f"is nested deeper than {DEEPEST}")]
    return [error for where, value in found for error in check_template(value, path=where, names=names)]


def _render(template: Any, scope: Mapping[str, Any], path: str, depth: int) -> Any:
    if depth == 0:
        raise TemplateError([FieldError(path, f"is nested deeper than {DEEPEST}")])
    if isinstance(template, str):
        return _render_text(template, scope, path)
    if isinstance(template, Mapping):
        inside = f"{path}." if path else ""
        return {key: _render(value, scope, f"{inside}{key}", depth - 1) for key, value in template.items()}
    if isinstance(template, list):
        return [_render(value, scope, f"{path}[{place}]", depth - 1) for place, value in enumerate(template)]
    return template


def _render_text(text: str, scope: Mapping[str, Any], path: str) -> Any:
    if "{{" not in text and "{%" not in text and "{#" not in text:
        return text
    try:
        pieces = cut(text)
        if len(pieces) == 1 and not isinstance(pieces[0], str):
            return _value(pieces[0], scope, plain)
        parts = [piece if isinstance(piece, str) else _value(piece, scope, _filled_in) for piece in pieces]
    except TemplateError as error:
        raise TemplateError([FieldError(path, one.reason) for one in error.errors]) from error
    if sum(map(len, parts)) > LARGEST_RESULT:
        raise TemplateError([FieldError(path, f"makes more than {LARGEST_RESULT // 1024} KiB")])
    return "".join(parts)


def _value(expression: Expression, scope: Mapping[str, Any], make: Callable[[Any], Any]) -> Any:
    try:
        spend(EXPRESSION_WORK)
        return make(expression.evaluate(**scope))
    except Exception as error:
        # People's own code: a filter raises what it likes, and it is a mistake of the template whatever it is.
        reason = f"{{{{ {expression.source} }}}}: {str(error) or type(error).__name__}"
    raise TemplateError([FieldError("", reason)])


def _filled_in(value: Any) -> str:
    return as_text(plain(value))


def _check_text(text: str, path: str, names: Collection[str] | None, condition: bool) -> list[FieldError]:
    if condition and "{{" not in text:
        text = f"{{{{ {text} }}}}"
    try:
        roots = {found[0] for found in references(text)}
    except TemplateError as error:
        return [FieldError(path, one.reason) for one in error.errors]
    if names is None:
        return []
    known = ", ".join(sorted(names)) or "none"
    return [FieldError(path, f"{name!r} is not defined here (known: {known})") for name in sorted(roots - set(names))]
