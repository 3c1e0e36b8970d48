"""Subjects of tenants' tokens: names that cannot be mistaken for those of Atlas itself or of its operators.

Audit rows and approvals show a subject to people, so it is compared as people read it: without case, accents, spaces
and punctuation, and with letters that look alike made equal. A name is written in one of the alphabets that Unicode
recommends for identifiers, which are those of languages in use today (UAX 31, table 5).
"""

import unicodedata
from collections.abc import Iterable, Iterator

from atlas.errors import FieldError

# Who acts in the audit log without a token, and the subject of an installation's first one.
RESERVED = (
    *("operator", "operators", "system", "scheduler", "engine", "worker", "workers", "api", "cli", "root", "unknown"),
    *("reaper", "retention", "watchdog", "sealer", "atlas", "atlas up", "atlas migrate"),
)
# Begins the name of a person at a terminal of the machine, and of a database login that enqueues by itself.
PREFIXES = ("cli:", "db:")

# The first word of a letter's name in Unicode. The first five are written together.
_EAST_ASIAN = {"HANGUL", "CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO"}
_ALPHABETS = {
    *_EAST_ASIAN,
    *("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN", "HEBREW", "ARABIC", "THAANA", "ETHIOPIC"),
    *("DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA"),
    *("THAI", "LAO", "TIBETAN", "MYANMAR", "KHMER"),
}
# From these code points on the alphabet has old and phonetic letters, many of which look like others.
_ENDS = {"LATIN": 0x180, "GREEK": 0x400, "CYRILLIC": 0x500, "ARMENIAN": 0x590}
_PUNCTUATION = "’–·"
# What looks like a Latin letter, once accents are removed; a capital may look like another one than its small letter.
_LOOKS_LIKE = {
    "a": "АаΑα",
    "b": "ВвЬьΒβ",
    "c": "Сс",
    "d": "đĐðÐ",
    "e": "ЕеΕε",
    "g": "ց",
    "h": "ħĦНнһΗհ",
    "j": "Јјյ",
    "k": "ĸКкΚκ",
    "l": "1|IiıłŁІіӀӏΙιլ",
    "m": "МмΜ",
    "n": "ŋŊПпηΝո",
    "o": "0øØОоΟοσՕօ",
    "p": "þÞРрΡρ",
    "q": "զ",
    "r": "Гг",
    "s": "5Ѕѕ",
    "t": "ŧŦТтΤτ",
    "u": "μυսՍ",
    "v": "Ѵѵν",
    "w": "ω",
    "x": "ХхΧχ",
    "y": "УуΥγ",
    "z": "Ζ",
}
_SAME = str.maketrans({seen: letter for letter, alike in _LOOKS_LIKE.items() for seen in alike})


def check_subject(subject: str) -> list[FieldError]:
    """What is wrong with the subject of a tenant's token."""
    plain = " ".join(unicodedata.normalize("NFKC", subject).split())
    if subject != plain:
        return [FieldError("subject", f"must be written plainly, as {plain!r}: no other spaces, no special forms")]
    odd = next(_odd(subject), None)
    if odd is not None:
        return [
            FieldError("subject", f"holds {odd!r}, which is not a letter of an alphabet in use, a digit or punctuation")
        ]
    alphabets = {_alphabet(character) for character in subject if character.isalpha()}
    if len(alphabets - _EAST_ASIAN) > 1:
        listed = " and ".join(sorted(name.capitalize() for name in alphabets))
        return [FieldError("subject", f"mixes letters of {listed}, which may look alike")]
    if subject.casefold().startswith(PREFIXES) or looks_like(subject, RESERVED):
        return [FieldError("subject", f"{subject!r} reads like a name of Atlas itself; choose another one")]
    return []


def looks_like(subject: str, others: Iterable[str]) -> bool:
    """Whether people may take it for one of the others."""
    seen = _as_seen(subject)
    return bool(seen) and any(seen == _as_seen(other) for other in others)


def _odd(subject: str) -> Iterator[str]:
    """The characters that a name does not need, once accents are taken off the letters."""
    for character in unicodedata.normalize("NFKD", subject):
        if character.isascii() or character in _PUNCTUATION or unicodedata.category(character).startswith("M"):
            continue
        name = _alphabet(character)
        if not character.isalpha() or name not in _ALPHABETS or ord(character) >= _ENDS.get(name, 0x110000):
            yield character


def _alphabet(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _as_seen(subject: str) -> str:
    bare = "".join(
        character for character in unicodedata.normalize("NFKD", subject) if character.isalnum() or character == "|"
    )
    return bare.translate(_SAME).casefold().replace("i", "l").replace("rn", "m").replace("vv", "w")
