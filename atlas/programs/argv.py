"""What may stand in an argv that is never read by a shell."""

from pathlib import PurePosixPath

# The kernel's limit for one argument, less its closing zero.
LONGEST_ARGUMENT = 128 * 1024 - 1
_SHELLS = {"sh", "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "tcsh", "zsh", "busybox", "env", "xargs"}


def against_program(program: str) -> str | None:
    """Why this may not be the program of an allowed command; None if it may."""
    path = PurePosixPath(program)
    if "{{" in program or not path.is_absolute() or str(path) != program or ".." in path.parts:
        return "is not the absolute path of a program, spelled out"
    if path.name in _SHELLS:
        return f"is {path.name}, which runs what its arguments say; name the program itself"
    return None


def against_argument(argument: str) -> str | None:
    """Why the kernel would not take this argument; None if it would."""
    if "\0" in argument:
        return "holds the character U+0000"
    try:
        size = len(argument.encode())
    except UnicodeEncodeError:
        return "holds half a character"
    return f"makes an argument of more than {LONGEST_ARGUMENT} bytes" if size > LONGEST_ARGUMENT else None
