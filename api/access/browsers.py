"""The name of a browser, from the User-Agent that it sends: enough for a person to recognize a session as theirs."""

import re

# The first that matches: most browsers name others too, and Chrome's relatives all name Chrome and Safari.
_BROWSERS = (
    ("Edge", r"Edg(?:e|A|iOS)?/(\d+)"),
    ("Opera", r"OPR/(\d+)"),
    ("Firefox", r"(?:Firefox|FxiOS)/(\d+)"),
    ("Chrome", r"(?:Headless)?(?:Chrome|CriOS)/(\d+)"),
    ("Safari", r"Version/(\d+)[^ ]* (?:Mobile/\S+ )?Safari/"),
)
_SYSTEMS = (
    ("Windows", "Windows"),
    ("Android", "Android"),
    ("iOS", "iPhone|iPad"),
    ("macOS", "Mac OS X"),
    ("ChromeOS", "CrOS"),
    ("Linux", "Linux"),
)


def browser_name(user_agent: str) -> str | None:
    """`Firefox 131 on Linux`; None for what is no browser that is known."""
    for name, pattern in _BROWSERS:
        if match := re.search(pattern, user_agent):
            system = next((system for system, mark in _SYSTEMS if re.search(mark, user_agent)), None)
            return f"{name} {match[1][:4]}" + ("" if system is None else f" on {system}")
    return None
