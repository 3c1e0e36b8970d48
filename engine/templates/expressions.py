"""Expressions: a template's text split into literal text and expressions, each checked before it is compiled."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, Undefined, UndefinedError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from atlas.engine.templates.filters import TESTS, allowed_filters, as_number, choose, measure
from atlas.errors import FieldError, InvalidInput

# A longer text is not a template.
MAX_TEMPLATE_LENGTH = 16 * 1024
MAX_EXPRESSION_LENGTH = 500
DEEPEST_EXPRESSION = 40
MAX_FILTERS = 20
MAX_EXPONENT = 64
# A character takes up to 20 µs to parse and as long again to compile. In a text, and in a document:
MAX_IN_A_TEXT = 100
MAX_IN_ALL = 1000
MAX_IN_ALL_LENGTH = 16 * 1024

_ALLOWED = (
    *(nodes.Template, nodes.Output, nodes.Const, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Keyword),
    *(nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Filter, nodes.Test, nodes.Compare, nodes.Operand),
    *(nodes.BinExpr, nodes.UnaryExpr, nodes.Concat, nodes.CondExpr),
)
# No template can spell it.
_MEASURED = "(measured)"


class TemplateError(InvalidInput):
    """A template that cannot be read, or that asks for what is not there."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__("The template", [FieldError(path, reason)])
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Expression:
    """One `{{ }}`, checked, and the paths it reads."""

    source: str
    paths: frozenset[tuple[str, ...]]

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """The value of the expression; Undefined if it reads what is not there."""
        return _compile(self.source)(**scope)


class _MeasureOperands(NodeTransformer):
    """Measures what `~` and comparisons look at: they become Python's own operators, which a sandbox cannot hook."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        node.nodes = [nodes.Filter(self.visit(child), _MEASURED, [], [], None, None) for child in node.nodes]
        return node

    def visit_Compare(self, node: nodes.Compare | nodes.Operand) -> nodes.Node:
        self.generic_visit(node)
        node.expr = nodes.Filter(node.expr, _MEASURED, [], [], None, None)
        return node

    visit_Operand = visit_Compare


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's expressions over plain JSON. Calls are refused before anything is compiled."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False, optimized=False, keep_trailing_newline=True)
        self.globals = {}
        self.filters = {_MEASURED: measure, **allowed_filters(self.filters)}
        self.tests = choose(self.tests, TESTS)

    def _generate(self, source: nodes.Template, *arguments: Any, **options: Any) -> str:
        return super()._generate(_MeasureOperands().visit(source), *arguments, **options)

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

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        for value in (left, right):
            measure(value)
        joins = operator == "+" and isinstance(left, str | list) and type(left) is type(right)
        if not joins and not (isinstance(left, int | float) and isinstance(right, int | float)):
            raise TypeError(f"{operator!r} takes two numbers")
        if operator == "**" and abs(right) > MAX_EXPONENT:
            raise ValueError(f"'**' takes an exponent of at most {MAX_EXPONENT}")
        return as_number(super().call_binop(context, operator, left, right))


_SANDBOX = _Sandbox()


def template_names() -> dict[str, list[str]]:
    """The names of the filters and tests that an expression may use."""
    return {"filters": sorted(set(_SANDBOX.filters) - {_MEASURED}), "tests": sorted(_SANDBOX.tests)}


def references(template: Any) -> set[tuple[str, ...]]:
    """The paths a template reads: `{{ steps.a.output.y }}` gives ("steps", "a", "output", "y")."""
    pieces = [piece for text in _texts(template) for piece in split(text)]
    return {path for piece in pieces if isinstance(piece, Expression) for path in piece.paths}


def is_constant(template: Any) -> bool:
    """Whether nothing of a template is filled in."""
    return all(is_plain(text) for text in _texts(template))


def check_expressions(document: Any, path: str) -> list[FieldError]:
    """What is wrong with a document that holds more expressions than can be compiled in a second."""
    pieces = [piece for text in _texts(document) for piece in text.split("{{")[1:]]
    if len(pieces) > MAX_IN_ALL:
        return [FieldError(path, f"contains more than {MAX_IN_ALL:,} {{{{ }}}}")]
    if sum(piece.rfind("}}") if "}}" in piece else len(piece) for piece in pieces) > MAX_IN_ALL_LENGTH:
        return [FieldError(path, f"contains more than {MAX_IN_ALL_LENGTH // 1024} KiB of {{{{ }}}}")]
    return []


def is_plain(text: str) -> bool:
    """Whether a text holds nothing to fill in."""
    return "{{" not in text and "{%" not in text and "{#" not in text


def compile_one_by_one(template: Any) -> Iterator[None]:
    """Compile the expressions of a template, so that filling it in takes no longer than its values need.

    A step takes milliseconds, and the caller may do something else after each. What cannot be compiled is left for
    `split` to report.
    """
    for text in _texts(template):
        if is_plain(text):
            continue
        with suppress(TemplateError):
            for piece, is_expression in _pieces(text):
                if is_expression:
                    yield
                    _parse(piece)
                    yield
                    _compile(piece)


@lru_cache(maxsize=4096)
def split(text: str) -> tuple[str | Expression, ...]:
    """The pieces of a text: literal strings and expressions."""
    if is_plain(text):
        return (text,)
    return tuple(_parse(piece) if is_expression else piece for piece, is_expression in _pieces(text))


@lru_cache(maxsize=4096)
def _pieces(text: str) -> tuple[tuple[str, bool], ...]:
    """The pieces of a text, each with whether it is the source of an expression."""
    if len(text) > MAX_TEMPLATE_LENGTH:
        raise TemplateError("", f"is longer than {MAX_TEMPLATE_LENGTH // 1024} KiB")
    if text.count("{{") > MAX_IN_A_TEXT:
        raise TemplateError("", f"contains more than {MAX_IN_A_TEXT} {{{{ }}}}")
    pieces: list[tuple[str, bool]] = []
    inside: list[str] | None = None
    try:
        for _, token, value in _SANDBOX.lex(text):
            if token == "variable_begin":
                inside = []
            elif token == "variable_end" and inside is not None:
                pieces.append(("".join(inside).strip(), True))
                inside = None
            elif inside is not None:
                inside.append(value)
            elif token == "data":
                pieces.append((value, False))
            else:
                raise TemplateError("", "holds a statement or a comment, not only {{ }}")
    except TemplateSyntaxError as error:
        raise TemplateError("", f"cannot be read: {error.message}") from error
    if inside is not None:
        raise TemplateError("", "opens {{ without closing it")
    return tuple(pieces)


@lru_cache(maxsize=4096)
def _parse(source: str) -> Expression:
    if len(source) > MAX_EXPRESSION_LENGTH:
        raise TemplateError("", f"{{{{ {source[:40]}… }}}}: is longer than {MAX_EXPRESSION_LENGTH} characters")
    try:
        tree = _SANDBOX.parse(f"{{{{ {source} }}}}")
        _check(tree)
    except RecursionError as error:
        raise TemplateError("", f"{{{{ {source} }}}}: is nested too deeply") from error
    except (TemplateSyntaxError, ValueError) as error:
        raise TemplateError("", f"{{{{ {source} }}}}: {error}") from error
    return Expression(source, frozenset(_paths(tree)))


@lru_cache(maxsize=4096)
def _compile(source: str) -> Any:
    return _SANDBOX.compile_expression(source, undefined_to_none=False)


def _check(tree: nodes.Template) -> None:
    """Raise ValueError for an expression that could grow, take long, or reach into Python."""
    if _depth(tree) > DEEPEST_EXPRESSION:
        raise ValueError("is nested too deeply")
    if sum(1 for _ in tree.find_all(nodes.Filter)) > MAX_FILTERS:
        raise ValueError(f"has more than {MAX_FILTERS} filters")
    for node in tree.find_all(nodes.Node):
        kind = type(node).__name__.lower()
        if not isinstance(node, _ALLOWED):
            raise ValueError(f"{kind}s are not allowed; use a filter")
        if isinstance(node, nodes.Const):
            as_number(node.value)
        elif isinstance(node, nodes.Filter | nodes.Test):
            names = _SANDBOX.filters if kind == "filter" else _SANDBOX.tests
            if node.name not in names or node.dyn_args is not None or node.dyn_kwargs is not None:
                raise ValueError(f"there is no {kind} {node.name!r}")


def _depth(node: nodes.Node) -> int:
    return 1 + max(map(_depth, node.iter_child_nodes()), default=0)


def _paths(tree: nodes.Template) -> Iterator[tuple[str, ...]]:
    """The longest paths: `input.a.b` and not `input.a`. What lies behind a computed index is left out."""
    inner: set[nodes.Node] = set()
    for node in tree.find_all((nodes.Getattr, nodes.Getitem, nodes.Name)):
        at: nodes.Node = node
        keys: list[str] = []
        while isinstance(at, nodes.Getattr | nodes.Getitem):
            key = at.attr if isinstance(at, nodes.Getattr) else getattr(at.arg, "value", None)
            keys = [key, *keys] if isinstance(key, str) else []
            at = at.node
            inner.add(at)
        if isinstance(at, nodes.Name) and node not in inner:
            yield at.name, *keys


def _texts(template: Any) -> Iterator[str]:
    """All strings of a template but its keys."""
    waiting = [template]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, Mapping | list):
            waiting += node.values() if isinstance(node, Mapping) else node
