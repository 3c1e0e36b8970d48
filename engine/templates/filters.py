"""The filters of templates, each linear in the size of what it is given, and the budget of work that they spend."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any

import orjson
from jinja2 import Undefined, UndefinedError

# The work of one rendering: the sizes, in characters, of all values that its expressions look at.
MAX_WORK = 4 * 1024 * 1024
# The work of an item of a list or object, in characters.
ITEM_WORK = 64
# A larger value is not a payload.
MAX_RESULT = 256 * 1024
MAX_DIGITS = 20
MAX_FIELDS = 4

# These look at a type, or at an item or two.
QUICK_FILTERS = "count,d,default,first,last,length"
TESTS = "boolean,defined,false,float,integer,iterable,mapping,none,number,sequence,string,true,undefined"
_TEXT_FILTERS = "abs,capitalize,float,int,items,list,lower,reverse,string,truncate,upper"
_LIST_FILTERS = "max,min,sort,sum,unique"

Functions = dict[str, Any]


@dataclass(slots=True)
class Budget:
    """The work that is left to the renderings that share it."""

    left: int


_budget: ContextVar[Budget] = ContextVar("budget")


@contextmanager
def within_budget(shared: Budget | None) -> Iterator[None]:
    """Give one rendering its own work, or what the shared budget has left if that is less."""
    most = MAX_WORK if shared is None else min(MAX_WORK, shared.left)
    own = Budget(most)
    before = _budget.set(own)
    try:
        yield
    finally:
        _budget.reset(before)
        if shared is not None:
            shared.left -= most - own.left


def measure(value: Any) -> Any:
    """Spend the size of a value, and return the value. Undefined, or not JSON, is an error."""
    text = as_json(value)
    budget = _budget.get()
    budget.left -= len(text) + (0 if isinstance(value, str) else ITEM_WORK * text.count(b","))
    if budget.left < 0:
        raise ValueError("takes more work than a template may do")
    return value


def as_json(value: Any) -> bytes:
    """The value as JSON text."""
    return orjson.dumps(value, default=_refuse, option=orjson.OPT_NON_STR_KEYS)


def as_text(value: Any) -> str:
    """The value as part of a text: a string as it is, null as nothing, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else as_json(value).decode()


def as_number(value: Any) -> Any:
    """The value; a number that JSON cannot hold is an error."""
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise ValueError("a whole number beyond 64 bits is not a JSON value")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a JSON value")
    return value


def choose(functions: Functions, names: str) -> Functions:
    """Those of these names alone."""
    return {name: functions[name] for name in names.split(",")}


def allowed_filters(builtin: Functions) -> Functions:
    """Jinja's filters that plain JSON needs, and ours. Each measures its value and options first."""
    filters = choose(builtin, _TEXT_FILTERS) | {"join": _join, "replace": _replace, "round": _round}
    filters["split"] = lambda value, separator=None: as_text(value).split(separator)
    filters["tojson"] = lambda value: as_json(value).decode()
    filters["trim"] = lambda value: as_text(value).strip()
    filters |= {name: _of_lists(function) for name, function in choose(builtin, _LIST_FILTERS).items()}
    return choose(builtin, QUICK_FILTERS) | {name: _measured(function) for name, function in filters.items()}


def _refuse(value: Any) -> Any:
    if isinstance(value, Undefined):
        raise UndefinedError(value._undefined_message)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _measured(function: Callable[..., Any]) -> Callable[..., Any]:
    first = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def measured(*arguments: Any, **options: Any) -> Any:
        for value in (*arguments[first:], *options.values()):
            measure(value)
        result = function(*arguments, **options)
        return list(result) if isinstance(result, Iterator) else as_number(result)

    return measured


def _of_lists(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def checked(environment: Any, value: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(value, str):
            raise TypeError("takes a list, not a text")
        for option in (*arguments, *options.values()):
            # Every field of an attribute is looked up in every item; a list to add to would be copied for every item.
            fields = option.replace(",", ".").split(".") if isinstance(option, str) else []
            if isinstance(option, Mapping | list | tuple) or len(fields) > MAX_FIELDS:
                raise ValueError(f"takes numbers, and an attribute of at most {MAX_FIELDS} fields")
        return function(environment, value, *arguments, **options)

    return checked


def _join(value: Any, separator: str = "") -> str:
    if isinstance(value, str):
        raise TypeError("takes a list, not a text")
    parts = [as_text(item) for item in value]
    if sum(map(len, parts)) + len(parts) * len(str(separator)) > MAX_RESULT:
        raise ValueError("the joined text is too large")
    return str(separator).join(parts)


def _replace(value: Any, old: str, new: str) -> str:
    text = as_text(value)
    if len(text) + text.count(str(old)) * len(str(new)) > MAX_RESULT:
        raise ValueError("the text with its replacements is too large")
    return text.replace(str(old), str(new))


def _round(value: float, digits: int = 0) -> float:
    if abs(digits) > MAX_DIGITS:
        raise ValueError(f"round takes at most {MAX_DIGITS} digits")
    return round(value, digits)
