"""Checks the argv of a program, which no shell reads."""

from pathlib import PurePosixPath

# The kernel's limit for one argument, without its closing zero.
MAX_ARGUMENT_LENGTH = 128 * 1024 - 1
_SHELLS = {"sh", "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "tcsh", "zsh", "busybox", "env", "xargs"}


def program_problem(program: str) -> str | None:
    """Why this cannot be the program of a command, or None."""
    path = PurePosixPath(program)
    if "{{" in program or not path.is_absolute() or str(path) != program or ".." in path.parts:
        return "is not the absolute path of a program, without variables or .."
    if path.name in _SHELLS:
        return f"is {path.name}, which runs its arguments as commands; give the program itself"
    return None


def argument_problem(argument: str) -> str | None:
    """Why the kernel would refuse this argument, or None."""
    if "\0" in argument:
        return "contains the character U+0000"
    try:
        size = len(argument.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode"
    return f"is longer than {MAX_ARGUMENT_LENGTH} bytes" if size > MAX_ARGUMENT_LENGTH else None
