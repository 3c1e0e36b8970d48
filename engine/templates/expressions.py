"""A template's text, cut into what stays and what is evaluated."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import TemplateSyntaxError, nodes

from atlas.engine.templates.sandbox import Sandbox
from atlas.errors import FieldError, InvalidInput

# A text longer than this is not a template.
LONGEST_TEMPLATE = 16 * 1024
# To make one ready takes as long as to fill in thousands: in one text, and in all of a document.
MOST_IN_A_TEXT = 200
MOST_IN_ALL = 2000

_SANDBOX = Sandbox()


class TemplateError(InvalidInput):
    """A template that cannot be read, or that asks for what is not there."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("The template", errors)


@dataclass(frozen=True, slots=True)
class Expression:
    """One `{{ }}`, ready to be evaluated, and the paths it reads."""

    source: str
    evaluate: Callable[..., Any]
    paths: frozenset[tuple[str, ...]]


def references(template: Any) -> set[tuple[str, ...]]:
    """The paths a template reads: `{{ steps.a.output.y }}` gives ("steps", "a", "output", "y")."""
    if isinstance(template, str):
        return {path for piece in cut(template) if not isinstance(piece, str) for path in piece.paths}
    inner: Sequence[Any] = ()
    if isinstance(template, Mapping):
        inner = list(template.values())
    elif isinstance(template, list):
        inner = template
    return {path for value in inner for path in references(value)}


def check_number(document: bytes, path: str) -> list[FieldError]:
    """What is wrong with a JSON text that holds more expressions than can be made ready in a moment."""
    if document.count(b"{{") > MOST_IN_ALL:
        return [FieldError(path, f"holds more than {MOST_IN_ALL:,} {{{{ }}}}")]
    return []


@lru_cache(maxsize=4096)
def cut(text: str) -> tuple[str | Expression, ...]:
    """A text cut into what stays and what is evaluated."""
    if len(text) > LONGEST_TEMPLATE:
        if "{{" not in text:
            return (text,)
        raise TemplateError([FieldError("", f"is longer than {LONGEST_TEMPLATE // 1024} KiB")])
    pieces: list[str | Expression] = []
    inside: list[str] | None = None
    try:
        for _, token, value in _SANDBOX.lex(text):
            if token == "variable_begin":
                inside = []
            elif token == "variable_end" and inside is not None:
                if sum(not isinstance(one, str) for one in pieces) >= MOST_IN_A_TEXT:
                    raise TemplateError([FieldError("", f"holds more than {MOST_IN_A_TEXT} {{{{ }}}}")])
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


@lru_cache(maxsize=4096)
def _compile(source: str) -> Expression:
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
    except ValueError as error:
        # Python reads and writes numbers of some thousand digits only.
        raise TemplateError([FieldError("", f"{{{{ {source[:40]}… }}}}: holds a number that is too long")]) from error
    return Expression(source, compiled, paths)


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
