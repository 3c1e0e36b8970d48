"""Templates, for declared workflows and triggers alike.

A value that is exactly one `{{ expression }}` is evaluated and keeps its type; any other string has its `{{ }}` filled
in and stays a string. There are no statements, no calls and no attributes of Python objects: a dot looks a key up, so
`{{ input.items }}` is the key `items`. A name that does not exist is an error. The values are plain JSON on both sides.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from jinja2 import StrictUndefined, TemplateSyntaxError, Undefined, UndefinedError, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from atlas.errors import FieldError, InvalidInput

# A text longer than this is not a template, and a value larger than that is not a payload.
LONGEST_TEMPLATE = 16 * 1024
LARGEST_RESULT = 256 * 1024
DEEPEST = 32

_FILTERS = (
    "abs,capitalize,count,d,default,first,float,int,items,last,length,list,lower,max,min,reverse,round,sort,string,sum,"
    "title,trim,truncate,unique,upper"
)
_TESTS = (
    "boolean,defined,divisibleby,eq,equalto,even,false,float,ge,greaterthan,gt,in,integer,iterable,le,lessthan,lower,lt,"
    "mapping,ne,none,number,odd,sequence,string,true,undefined,upper,==,!=,<,<=,>,>="
)


class TemplateError(InvalidInput):
    """A template that cannot be read, or that asks for what is not there."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("The template", errors)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's expressions over plain JSON. What could grow without bound is counted before it is made."""

    intercepted_binops = frozenset(("*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False, optimized=False, keep_trailing_newline=True)
        self.globals = {}
        self.filters = {name: self.filters[name] for name in _FILTERS.split(",")}
        self.filters |= {"join": _join, "replace": _replace, "tojson": _to_json, "split": _split}
        self.tests = {name: self.tests[name] for name in _TESTS.split(",")}

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Undefined):
            raise UndefinedError(obj._undefined_message)
        try:
            if isinstance(obj, Mapping | list | str):
                return obj[argument]
        except (LookupError, TypeError):
            pass
        return self.undefined(f"there is no {argument!r}")

    def is_safe_callable(self, obj: Any) -> bool:
        return False

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if not numbers or (operator == "**" and abs(right) > 64) or (operator == "**" and abs(left) > 2**32):
            raise SecurityError(f"{operator!r} takes two numbers of a sane size")
        return super().call_binop(context, operator, left, right)


def render(template: Any, scope: Mapping[str, Any], *, path: str = "", limit: int = LARGEST_RESULT) -> Any:
    """The template with its expressions filled in: strings, and the strings inside lists and objects."""
    rendered = _render(template, scope, path, DEEPEST)
    if len(orjson.dumps(rendered)) > limit:
        raise TemplateError([FieldError(path, f"makes more than {limit // 1024} KiB")])
    return rendered


def evaluate(template: str, scope: Mapping[str, Any], *, path: str = "") -> Any:
    """A condition's value. Here alone the braces may be left out: `steps.ask.output.approved`."""
    text = template if "{{" in template else f"{{{{ {template} }}}}"
    return _render(text, scope, path, DEEPEST)


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


def references(template: Any) -> set[tuple[str, ...]]:
    """The paths a template reads: `{{ steps.a.output.y }}` gives ("steps", "a", "output", "y")."""
    if isinstance(template, str):
        return {path for piece in _pieces(template) if not isinstance(piece, str) for path in piece.paths}
    inner: Sequence[Any] = ()
    if isinstance(template, Mapping):
        inner = list(template.values())
    elif isinstance(template, list):
        inner = template
    return {path for value in inner for path in references(value)}


@dataclass(frozen=True, slots=True)
class _Expression:
    source: str
    evaluate: Callable[..., Any]
    paths: frozenset[tuple[str, ...]]


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
        pieces = _pieces(text)
        if len(pieces) == 1 and not isinstance(pieces[0], str):
            return _value(pieces[0], scope)
        parts = [piece if isinstance(piece, str) else _as_text(_value(piece, scope)) for piece in pieces]
    except TemplateError as error:
        raise TemplateError([FieldError(path, one.reason) for one in error.errors]) from error
    if sum(map(len, parts)) > LARGEST_RESULT:
        raise TemplateError([FieldError(path, f"makes more than {LARGEST_RESULT // 1024} KiB")])
    return "".join(parts)


def _value(expression: _Expression, scope: Mapping[str, Any]) -> Any:
    try:
        return _plain(expression.evaluate(**scope))
    except UndefinedError as error:
        reason = f"{{{{ {expression.source} }}}}: {error.message}"
    except (SecurityError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        reason = f"{{{{ {expression.source} }}}}: {error}"
    raise TemplateError([FieldError("", reason)])


def _plain(value: Any) -> Any:
    """The value as plain JSON; what is undefined anywhere in it is an error."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Undefined):
        raise UndefinedError(value._undefined_message)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset | Iterator):
        return [_plain(inner) for inner in value]
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value).decode()


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


@lru_cache(maxsize=4096)
def _pieces(text: str) -> tuple[str | _Expression, ...]:
    """A text cut into what stays and what is evaluated."""
    if len(text) > LONGEST_TEMPLATE:
        if "{{" not in text:
            return (text,)
        raise TemplateError([FieldError("", f"is longer than {LONGEST_TEMPLATE // 1024} KiB")])
    pieces: list[str | _Expression] = []
    inside: list[str] | None = None
    try:
        for _, token, value in _SANDBOX.lex(text):
            if token == "variable_begin":
                inside = []
            elif token == "variable_end" and inside is not None:
                pieces.append(_compile("".join(inside).strip()))
                inside = None
            elif inside is not None:
                inside.append(value)
            elif token == "data":
                pieces.append(value)
            else:
                raise TemplateError([FieldError("", "holds a statement or a comment, not only {{ }}")])
    except TemplateSyntaxError as error:
        raise TemplateError([FieldError("", f"cannot be read: {error.message}")]) from error
    if inside is not None:
        raise TemplateError([FieldError("", "opens {{ without closing it")])
    return tuple(pieces)


def _compile(source: str) -> _Expression:
    try:
        tree = _SANDBOX.parse(f"{{{{ {source} }}}}")
        refused = next(tree.find_all((nodes.Call, nodes.Macro)), None)
        if refused is not None:
            raise TemplateError([FieldError("", f"{{{{ {source} }}}}: calls are not allowed; use a filter")])
        _check_words(tree, source)
        compiled = _SANDBOX.compile_expression(source, undefined_to_none=False)
    except TemplateSyntaxError as error:
        raise TemplateError([FieldError("", f"{{{{ {source} }}}}: {error.message}")]) from error
    return _Expression(source, compiled, frozenset(_paths(tree)))


def _check_words(tree: nodes.Template, source: str) -> None:
    for kind, known in ((nodes.Filter, _SANDBOX.filters), (nodes.Test, _SANDBOX.tests)):
        for node in tree.find_all(kind):
            if node.name not in known:
                word = kind.__name__.lower()
                raise TemplateError([FieldError("", f"{{{{ {source} }}}}: there is no {word} {node.name!r}")])


def _paths(tree: nodes.Template) -> Iterator[tuple[str, ...]]:
    inner = set()
    for node in tree.find_all((nodes.Getattr, nodes.Getitem, nodes.Name)):
        if node in inner:
            continue
        path: list[str] = []
        at: nodes.Node = node
        while isinstance(at, nodes.Getattr | nodes.Getitem):
            if isinstance(at, nodes.Getattr):
                path.append(at.attr)
            elif isinstance(at.arg, nodes.Const) and isinstance(at.arg.value, str):
                path.append(at.arg.value)
            else:
                path.clear()  # an index that is computed: what lies behind it is not known
            at = at.node
            inner.add(at)
        if isinstance(at, nodes.Name):
            yield (at.name, *reversed(path))


def _join(value: Any, separator: str = "") -> str:
    parts = [_as_text(_plain(one)) for one in value]
    if sum(map(len, parts)) + len(parts) * len(str(separator)) > LARGEST_RESULT:
        raise ValueError("the joined text is too large")
    return str(separator).join(parts)


def _replace(value: Any, old: str, new: str) -> str:
    text = _as_text(_plain(value))
    if len(text) + text.count(str(old)) * len(str(new)) > LARGEST_RESULT:
        raise ValueError("the text with its replacements is too large")
    return text.replace(str(old), str(new))


def _split(value: Any, separator: str | None = None) -> list[str]:
    return _as_text(_plain(value)).split(separator)


def _to_json(value: Any) -> str:
    return orjson.dumps(_plain(value)).decode()


_SANDBOX = _Sandbox()
