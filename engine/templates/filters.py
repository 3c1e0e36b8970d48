"""The filters of templates. What could grow without bound is counted before it is made."""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any

import orjson
from jinja2 import Undefined

from atlas.engine.templates.budget import VALUE_WORK, length, look_over, spend
from atlas.engine.templates.plain import as_text, plain

# A value larger than this is not a payload.
LARGEST_RESULT = 256 * 1024
MOST_DIGITS = 20
# As many as the largest float has. Multiplying and dividing take the square of a number's bits.
MOST_BITS = 1024

_NAMES = (
    "abs,capitalize,count,d,default,first,float,int,items,last,length,list,lower,max,min,reverse,round,sort,string,sum,"
    "title,trim,truncate,unique,upper"
)
# These look at no more than a value or two.
_QUICK = {"count", "d", "default", "first", "last", "length"}
# These compare what is in a value with one another; a text is so many values to them.
_COMPARING = {"max", "min", "sort", "unique"}
# These look at an attribute of each value, by its path.
_BY_PATH = {"max", "min", "sort", "sum", "unique"}
# A character takes as long as so many to be part of a title.
TITLE_WORK = 16

Filter = Callable[..., Any]


def bounded_filters(builtin: Mapping[str, Filter]) -> dict[str, Filter]:
    """Those of Jinja's filters that plain JSON needs, and ours; each pays for what it looks at."""
    known = {name: builtin[name] for name in _NAMES.split(",")}
    known |= {"join": _join, "replace": _replace, "tojson": _to_json, "split": _split, "string": string}
    known["sum"] = _sum_of_numbers(known["sum"])
    known["int"] = _int_in_reach(known["int"])
    known["round"] = _round_in_reach(known["round"])
    return {name: one if name in _QUICK else _counted(name, one) for name, one in known.items()}


def is_sane(value: Any) -> bool:
    """Whether a value is a number that one may reckon with."""
    return isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= MOST_BITS)


def string(value: Any) -> str:
    """A value as text, in Jinja's way."""
    if isinstance(value, str):
        spend(len(value))
    elif not isinstance(value, Undefined):
        plain(value)
    return str(value)


def _join(value: Any, separator: str = "") -> str:
    parts = [as_text(plain(one)) for one in value]
    if sum(map(len, parts)) + len(parts) * len(str(separator)) > LARGEST_RESULT:
        raise ValueError("the joined text is too large")
    return str(separator).join(parts)


def _replace(value: Any, old: str, new: str) -> str:
    text = as_text(plain(value))
    if len(text) + text.count(str(old)) * len(str(new)) > LARGEST_RESULT:
        raise ValueError("the text with its replacements is too large")
    return text.replace(str(old), str(new))


def _split(value: Any, separator: str | None = None) -> list[str]:
    return as_text(plain(value)).split(separator)


def _to_json(value: Any) -> str:
    return orjson.dumps(plain(value)).decode()


def _sum_of_numbers(add: Filter) -> Filter:
    @wraps(add)
    def sum(environment: Any, value: Any, attribute: str | int | None = None, start: float = 0) -> Any:
        # Lists that are added up are copied once for each of them.
        if not isinstance(start, int | float):
            raise TypeError("sum takes numbers")
        return add(environment, value, attribute, start)

    return sum


def _int_in_reach(make: Filter) -> Filter:
    def whole(value: Any, default: Any = 0, base: int = 10) -> Any:
        number = make(value, default, base)
        if isinstance(number, int) and not is_sane(number):
            raise ValueError(f"int makes numbers of at most {MOST_BITS} bits")
        return number

    return whole


def _round_in_reach(round: Filter) -> Filter:
    def rounded(value: Any, precision: int = 0, method: str = "common") -> Any:
        # Ten to this power is computed.
        if abs(precision) > MOST_DIGITS:
            raise ValueError(f"round takes at most {MOST_DIGITS} digits")
        return round(value, precision, method)

    return rounded


def _price(name: str) -> Callable[[Any], None]:
    if name in _COMPARING:
        return _compare
    if name == "title":
        return lambda value: look_over(value, per_character=TITLE_WORK)
    # Most make a text of it first, however deep it is.
    return look_over


def _repeats(name: str, option: str) -> int:
    """How often a filter looks at its value because of an option."""
    if name in _BY_PATH:
        # Every part of it is looked up in every value.
        return option.count(".") + option.count(",")
    # Every character is looked for among these, quickly.
    return len(option) // 256 if name == "trim" else 0


def _compare(value: Any) -> None:
    if isinstance(value, str):
        spend(2 * VALUE_WORK * len(value))
    else:
        look_over(value)


def _counted(name: str, function: Filter) -> Filter:
    """A filter that pays for its value and options first. Its answer has a length too, so that the next one pays."""
    pay = _price(name)
    place = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def counted(*arguments: Any, **options: Any) -> Any:
        pay(arguments[place])
        for option in (*arguments[place + 1 :], *options.values()):
            look_over(option)
            if isinstance(option, str):
                spend(length(arguments[place]) * _repeats(name, option))
        answer = function(*arguments, **options)
        return list(answer) if isinstance(answer, Iterator) else answer

    return counted
