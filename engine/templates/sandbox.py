"""Jinja's expressions over plain JSON, without calls, attributes of Python objects, or anything unbounded."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from jinja2 import StrictUndefined, Undefined, UndefinedError, nodes
from jinja2.compiler import CodeGenerator, Frame, operators
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from atlas.engine.templates.budget import length, look_over, spend
from atlas.engine.templates.filters import bounded_filters, is_sane, string

_TESTS = (
    "boolean,defined,divisibleby,eq,equalto,even,false,float,ge,greaterthan,gt,in,integer,iterable,le,lessthan,lower,lt,"
    "mapping,ne,none,number,odd,sequence,string,true,undefined,upper,==,!=,<,<=,>,>="
)
# These divide, which with a text is to fill it in, to any width it asks for.
_DIVIDING = ("divisibleby", "even", "odd")
_COMPARING = "eq,equalto,ge,greaterthan,gt,in,le,lessthan,lower,lt,ne,upper,==,!=,<,<=,>,>="


class _Generator(CodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        # Jinja joins the parts by itself; here they are counted first.
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        self.write("(environment.compared(")
        self.visit(node.expr, frame)
        self.write(")")
        for operand in node.ops:
            self.visit(operand, frame)
        self.write(")")

    def visit_Operand(self, node: nodes.Operand, frame: Frame) -> None:
        self.write(f" {operators[node.op]} environment.compared(")
        self.visit(node.expr, frame)
        self.write(")")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("environment.copied(")
        self.visit(node.node, frame)
        self.write(")[")
        self.visit(node.arg, frame)
        self.write("]")


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's expressions over plain JSON. What could grow without bound is counted before it is made."""

    code_generator_class = _Generator
    intercepted_binops = frozenset(("+", "*", "**", "%", "//"))

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False, optimized=False, keep_trailing_newline=True)
        self.globals = {}
        self.filters = bounded_filters(self.filters)
        self.tests = {name: self.tests[name] for name in _TESTS.split(",")}
        self.tests |= {name: _of_numbers(self.tests[name]) for name in _DIVIDING}
        self.tests |= {name: _counted(self.tests[name]) for name in _COMPARING.split(",")}

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
        return "".join(map(string, parts))

    def compared(self, value: Any) -> Any:
        """A value on one side of a comparison."""
        look_over(value)
        return value

    def copied(self, value: Any) -> Any:
        """A value of which a part is taken."""
        spend(length(value))
        return value

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "+":
            spend(length(left) + length(right))
            return super().call_binop(context, operator, left, right)
        numbers = is_sane(left) and is_sane(right)
        if not numbers or (operator == "**" and abs(right) > 64) or (operator == "**" and abs(left) > 2**32):
            raise SecurityError(f"{operator!r} takes two numbers of a sane size")
        return super().call_binop(context, operator, left, right)


def _of_numbers(test: Any) -> Callable[..., Any]:
    @wraps(test)
    def tested(*numbers: Any) -> Any:
        if not all(is_sane(one) or isinstance(one, Undefined) for one in numbers):
            raise TypeError(f"{test.__name__.removeprefix('test_')} takes numbers of a sane size")
        return test(*numbers)

    return tested


def _counted(test: Any) -> Callable[..., Any]:
    @wraps(test)
    def counted(*values: Any) -> Any:
        for value in values:
            look_over(value)
        return test(*values)

    return counted
