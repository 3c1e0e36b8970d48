"""Removes escape sequences and control characters from text, and shows characters that hide, to store and print it."""

import re
import signal

# Escape sequences: colours and cursors, titles and other strings, character sets, single letters.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# Tab and line feed stay. The last ranges change the direction of text invisibly.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
# Characters that hide, or that turn the text after them: marks of direction, blanks without a width, fillers and tags.
HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN = re.compile(f"[{HIDDEN}]")
_RETURNS = re.compile(r"\r+\n?")


def plain(text: str) -> str:
    """The readable text. A line that was overwritten with carriage returns becomes several."""
    return _CONTROLS.sub("", _RETURNS.sub("\n", _SEQUENCES.sub("", text)))


def visible(text: str) -> str:
    """Text in which nothing is invisible and nothing is reordered: such characters are shown by their number."""
    return _HIDDEN.sub(_number, text)


def _number(match: re.Match[str]) -> str:
    digits = f"{ord(match[0]):04x}"
    return f"\\u{{{digits}}}" if len(digits) > 4 else f"\\u{digits}"


def last_line(text: str) -> str:
    """The last line that is not empty, cut to 200 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def ending(exit_code: int | None) -> str:
    """How a program ended, as the end of a sentence."""
    if exit_code is None:
        return "hangs and cannot be killed"
    if exit_code >= 0:
        return f"ended with exit status {exit_code}"
    try:
        return f"was ended by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was ended by signal {-exit_code}"
