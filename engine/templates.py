"""Templates, for declared workflows and triggers alike.

A value that is exactly one `{{ expression }}` is evaluated and keeps its type; any other string has its `{{ }}` filled
in and stays a string. There are no statements, no calls and no attributes of Python objects: a dot looks a key up, so
`{{ input.items }}` is the key `items`. A name that does not exist is an error. The values are plain JSON on both sides.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any

import orjson
from jinja2 import StrictUndefined, TemplateSyntaxError, Undefined, UndefinedError, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from atlas.errors import FieldError, InvalidInput

# A text longer than this is not a template, and a value larger than that is not a payload.
LONGEST_TEMPLATE = 16 * 1024
LARGEST_RESULT = 256 * 1024
DEEPEST = 32
# What one rendering may look at on its way, in characters: a filter may double what the one before it made. A value
# takes as long to look at as so many characters.
MOST_WORK = 16 * 1024 * 1024
VALUE_WORK = 32
MOST_DIGITS = 20

_FILTERS = (
    "abs,capitalize,count,d,default,first,float,int,items,last,length,list,lower,max,min,reverse,round,sort,string,sum,"
    "title,trim,truncate,unique,upper"
)
# These look at no more than a value or two.
_QUICK = {"count", "d", "default", "first", "last", "length"}
_TESTS = (
    "boolean,defined,divisibleby,eq,equalto,even,false,float,ge,greaterthan,gt,in,integer,iterable,le,lessthan,lower,lt,"
    "mapping,ne,none,number,odd,sequence,string,true,undefined,upper,==,!=,<,<=,>,>="
)


class TemplateError(InvalidInput):
    """A template that cannot be read, or that asks for what is not there."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("The template", errors)


class _Generator(CodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        # Jinja joins the parts by itself; here they are counted first.
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's expressions over plain JSON. What could grow without bound is counted before it is made."""

    code_generator_class = _Generator
    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False, optimized=False, keep_trailing_newline=True)
        self.globals = {}
        known = {name: self.filters[name] for name in _FILTERS.split(",")}
        known |= {"join": _join, "replace": _replace, "tojson": _to_json, "split": _split, "string": _string}
        known["sum"] = _sum_of_numbers(known["sum"])
        known["round"] = _round_in_reach(known["round"])
        self.filters = {name: one if name in _QUICK else _counted(one) for name, one in known.items()}
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

    def joined(self, parts: Sequence[Any]) -> str:
        """What `~` makes of its parts."""
        return "".join(map(_string, parts))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "+":
            _spend(_length(left) + _length(right))
            return super().call_binop(context, operator, left, right)
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if not numbers or (operator == "**" and abs(right) > 64) or (operator == "**" and abs(left) > 2**32):
            raise SecurityError(f"{operator!r} takes two numbers of a sane size")
        return super().call_binop(context, operator, left, right)


def render(template: Any, scope: Mapping[str, Any], *, path: str = "", limit: int = LARGEST_RESULT) -> Any:
    """The template with its expressions filled in: strings, and the strings inside lists and objects."""
    rendered = _within_bounds(template, scope, path)
    try:
        size = len(orjson.dumps(rendered))
    except TypeError as error:
        raise TemplateError([FieldError(path, f"makes what is not JSON: {error}")]) from error
    if size > limit:
        raise TemplateError([FieldError(path, f"makes more than {limit // 1024} KiB")])
    return rendered


def evaluate(template: str, scope: Mapping[str, Any], *, path: str = "") -> Any:
    """A condition's value. Here alone the braces may be left out: `steps.ask.output.approved`."""
    text = template if "{{" in template else f"{{{{ {template} }}}}"
    return _within_bounds(text, scope, path)


def _within_bounds(template: Any, scope: Mapping[str, Any], path: str) -> Any:
    before = _work.set([MOST_WORK])
    try:
        return _render(template, scope, path, DEEPEST)
    finally:
        _work.reset(before)


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
            return _value(pieces[0], scope, _plain)
        parts = [piece if isinstance(piece, str) else _value(piece, scope, _filled_in) for piece in pieces]
    except TemplateError as error:
        raise TemplateError([FieldError(path, one.reason) for one in error.errors]) from error
    if sum(map(len, parts)) > LARGEST_RESULT:
        raise TemplateError([FieldError(path, f"makes more than {LARGEST_RESULT // 1024} KiB")])
    return "".join(parts)


def _value(expression: _Expression, scope: Mapping[str, Any], make: Callable[[Any], Any]) -> Any:
    try:
        return make(expression.evaluate(**scope))
    except Exception as error:
        # People's own code: a filter raises what it likes, and it is a mistake of the template whatever it is.
        reason = f"{{{{ {expression.source} }}}}: {str(error) or type(error).__name__}"
    raise TemplateError([FieldError("", reason)])


def _filled_in(value: Any) -> str:
    return _as_text(_plain(value))


def _plain(value: Any) -> Any:
    """The value as plain JSON; what is undefined anywhere in it, or not JSON, is an error."""
    _spend(VALUE_WORK)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise ValueError("a whole number beyond 64 bits is not a JSON value")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a JSON value")
        return value
    if isinstance(value, Undefined):
        raise UndefinedError(value._undefined_message)
    if isinstance(value, Mapping):
        return {_text(str(key)): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset | Iterator):
        return [_plain(inner) for inner in value]
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _text(text: str) -> str:
    _spend(len(text))
    if not text.isascii():
        text.encode()  # half a character is a ValueError
    return text


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
    except RecursionError as error:
        raise TemplateError([FieldError("", "is nested too deeply")]) from error
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
        paths = frozenset(_paths(tree))
    except TemplateSyntaxError as error:
        raise TemplateError([FieldError("", f"{{{{ {source} }}}}: {error.message}")]) from error
    except (RecursionError, MemoryError, SyntaxError) as error:
        # Of the parser, or of Python over what the parser made.
        raise TemplateError([FieldError("", f"{{{{ {source[:40]}… }}}}: is nested too deeply")]) from error
    return _Expression(source, compiled, paths)


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


def _string(value: Any) -> str:
    if isinstance(value, str):
        _spend(len(value))
    elif not isinstance(value, Undefined):
        _plain(value)
    return str(value)


def _sum_of_numbers(add: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(add)
    def sum(environment: Any, value: Any, attribute: str | int | None = None, start: float = 0) -> Any:
        # Lists that are added up are copied once for each of them.
        if not isinstance(start, int | float):
            raise TypeError("sum takes numbers")
        return add(environment, value, attribute, start)

    return sum


def _round_in_reach(round: Callable[..., Any]) -> Callable[..., Any]:
    def rounded(value: Any, precision: int = 0, method: str = "common") -> Any:
        # Ten to this power is computed.
        if abs(precision) > MOST_DIGITS:
            raise ValueError(f"round takes at most {MOST_DIGITS} digits")
        return round(value, precision, method)

    return rounded


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that pays for the length of its value. Its answer has a length too, so that the next one pays."""
    place = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def counted(*arguments: Any, **options: Any) -> Any:
        _spend(_length(arguments[place]))
        answer = function(*arguments, **options)
        return list(answer) if isinstance(answer, Iterator) else answer

    return counted


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return VALUE_WORK * len(value) if isinstance(value, Mapping | list | tuple) else 0


def _spend(work: int) -> None:
    left = _work.get()
    left[0] -= work
    if left[0] < 0:
        raise ValueError("takes more work than a template may make")


# What is left to the rendering at hand.
_work: ContextVar[list[int]] = ContextVar("work")
_SANDBOX = _Sandbox()
