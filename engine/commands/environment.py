"""The environment of a command: only the variables that its definition lists.

A variable has a text with placeholders, like those of the argv, or null for the worker's own value. Names that change
how programs are loaded or started are never accepted.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from atlas.engine.commands.argv import Facts, check_text, fields_of, fill_text, is_given, scalars
from atlas.errors import FieldError, InvalidInput
from atlas.programs.argv import MAX_ARGUMENT_LENGTH

MAX_NAMES = 100

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
# They make a loader, a shell or an interpreter run something else.
_FORBIDDEN = re.compile(
    r"LD_.*|DYLD_.*|GCONV_PATH|MALLOC_.*|BASH.*|ENV|IFS|PS4|SHELLOPTS|PROMPT_COMMAND|CDPATH|GLOBIGNORE|PYTHON.*"
    r"|PERL.*|RUBY.*|NODE_.*|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|LUA_.*|PHP.*|GIT_.*|EDITOR|PAGER",
    re.IGNORECASE,
)
# An operator may set these, an input may not.
_LITERAL_ONLY = {"PATH", "HOME", "SHELL", "TMPDIR", "USER", "LOGNAME"}
# Values of the worker's own environment under such names are redacted from the program's output.
_SOUNDS_SECRET = re.compile(r"TOKEN|SECRET|KEY|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)


def check_env(env: Any, schema: Mapping[str, Any]) -> list[FieldError]:
    """Return what is wrong with an environment for inputs of this schema."""
    if not isinstance(env, dict) or len(env) > MAX_NAMES:
        return [FieldError("env", f"is not an object of at most {MAX_NAMES} names")]
    errors = []
    for name, text in env.items():
        path = f"env.{name}"
        if not _NAME.fullmatch(name):
            errors.append(FieldError(path, "is not a name of letters, digits and underscores"))
        elif _FORBIDDEN.fullmatch(name):
            errors.append(FieldError(path, "changes how programs are started and is never passed on"))
        elif text is not None and not isinstance(text, str):
            errors.append(FieldError(path, "is neither a text nor null"))
        elif text is not None:
            # A variable whose optional field is not given is left out.
            errors += check_text(path, text, schema, present=fields_of(text))
            if name in _LITERAL_ONLY and fields_of(text):
                errors.append(FieldError(path, "may not come from an input"))
    return errors


def fill_env(
    env: Mapping[str, str | None], input: Mapping[str, Any], facts: Facts, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The program's whole environment. A name whose field is not given, or that the worker lacks, is left out."""
    values = {**scalars(input), **facts.as_values()}
    filled: dict[str, str] = {}
    for name, text in env.items():
        if text is None:
            if name in inherited:
                filled[name] = inherited[name]
        elif all(is_given(input, field) for field in fields_of(text)):
            filled[name] = _value(name, text, values)
    return filled


def read_environment() -> dict[str, str]:
    """The environment of this process, each byte that is no UTF-8 as a surrogate: programs get it as it is."""
    return {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, value in os.environb.items()
    }


def inherited_secrets(env: Mapping[str, str | None], inherited: Mapping[str, str]) -> list[str]:
    """The values of the worker's own environment that must be redacted from the program's output, as it shows them."""
    return [
        inherited[name].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        for name, text in env.items()
        if text is None and name in inherited and _SOUNDS_SECRET.search(name)
    ]


def _value(name: str, text: str, values: Mapping[str, str]) -> str:
    try:
        value = fill_text(text, values)
    except KeyError as error:
        raise InvalidInput(
            "The input", [FieldError(str(error.args[0]), "is missing or not a text, a number or a boolean")]
        ) from None
    if "\0" in value or len(f"{name}={value}".encode()) > MAX_ARGUMENT_LENGTH:
        fields = ", ".join(fields_of(text))
        raise InvalidInput("The input", [FieldError(fields, f"holds U+0000 or is too long for the variable {name}")])
    return value
