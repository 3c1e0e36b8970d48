"""What a program wrote, made fit to be stored and shown: no escape sequences, no control characters, no secrets."""

import re

from engine.jobs.redact import Redactor
from workers.commands.runner import Stream

# What terminals obey: colours and cursors, titles and other strings, character sets, and single letters.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# Tab and line feed stay. The last range turns text around without being seen.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_RETURNS = re.compile(r"\r+\n?")


def plain(text: str) -> str:
    """The text that a person would read: a line that was drawn over again and again becomes several."""
    return _CONTROLS.sub("", _RETURNS.sub("\n", _SEQUENCES.sub("", text)))


def shown(stream: Stream, redactor: Redactor | None) -> str:
    """What is kept of a stream, as text. Where some was left out, its amount stands in its place."""
    if stream.left_out <= 0:
        whole = plain((stream.head + stream.tail).decode("utf-8", "replace"))
        # A program that is killed, or cuts its own words, ends anywhere.
        return whole if redactor is None else redactor.cut(whole, at_end=True)
    head = plain(stream.head.decode("utf-8", "replace").rstrip("\ufffd"))
    tail = plain(stream.tail.decode("utf-8", "replace").lstrip("\ufffd"))
    if redactor is not None:
        head, tail = redactor.cut(head, at_end=True), redactor.cut(tail, at_start=True, at_end=True)
    return f"{head}\n[{stream.left_out} bytes left out]\n{tail}"


def last_line(text: str) -> str:
    """The last line that says something, in short."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
