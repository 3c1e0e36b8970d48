"""The files of the web pages, in memory: built by `npm run build` in `web/`, and the few that need no build.

The build leaves each file also compressed. A file with a hash in its name never changes, so browsers keep it for ever;
all others are asked for again, and answered with 304 while they are the same.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from mimetypes import guess_type
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from atlas.errors import AtlasError, NotFound
from atlas.source import SOURCE, atlas_command, setup_command

PLAIN = Path(__file__).parents[1] / "pages"
BUILT = SOURCE / "web" / "dist"
FIRST_PAGE = "index.html"
# Where the first page says how `atlas` is typed.
COMMAND = b'<meta name="atlas-command" content="%s"'
# By the content coding, in the order of preference.
COMPRESSED = {"br": ".br", "gzip": ".gz"}
HASHED = re.compile(r".+-[\w-]{8}\.(js|css|woff2|svg|png)")
FOR_EVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"


class PagesMissing(AtlasError):
    """The web pages were not built."""

    def __init__(self) -> None:
        super().__init__("The web pages are not built.", remedy=f"Run `{setup_command()}`, and start the API again.")


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file with its compressed forms, by content coding."""

    media_type: str
    etag: str
    cache_control: str
    plain: bytes
    compressed: Mapping[str, bytes]


def page(request: Request, name: str = FIRST_PAGE) -> Response:
    """A page, or the one that shows all addresses of the web pages."""
    file = _files().get(name)
    if file is None:
        raise PagesMissing()
    return _respond(request, file)


def asset(request: Request, name: str) -> Response:
    """A script, a style sheet or an image."""
    file = None if name.endswith(".html") else _files().get(name)
    if file is None:
        raise NotFound("file", name)
    return _respond(request, file)


@cache
def _files() -> Mapping[str, PageFile]:
    """All files by name. Folders make no difference: the names of the build are unique."""
    endings = tuple(COMPRESSED.values())
    paths = [path for folder in (PLAIN, BUILT) for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.name: _read(path) for path in paths if path.suffix not in endings}


def _read(path: Path) -> PageFile:
    plain = path.read_bytes()
    if path.name == FIRST_PAGE:
        named = _with_command(plain, atlas_command())
        if named != plain:
            return _file(path, named, {})
    beside = {coding: path.with_name(path.name + ending) for coding, ending in COMPRESSED.items()}
    compressed = {coding: other.read_bytes() for coding, other in beside.items() if other.exists()}
    return _file(path, plain, compressed)


def _with_command(page: bytes, command: str) -> bytes:
    """The page with the command that people type in a clone. A path of this machine says nothing to other machines."""
    return page if Path(command).is_absolute() else page.replace(COMMAND % b"atlas", COMMAND % escape(command).encode())


def _file(path: Path, plain: bytes, compressed: Mapping[str, bytes]) -> PageFile:
    kind = guess_type(path.name)[0] or "application/octet-stream"
    return PageFile(
        media_type=f"{kind}; charset=utf-8" if kind.startswith("text/") else kind,
        # Weak: it names the content, whichever coding it comes in.
        etag=f'W/"{hashlib.sha256(plain).hexdigest()[:32]}"',
        cache_control=FOR_EVER if HASHED.fullmatch(path.name) else ASK_AGAIN,
        plain=plain,
        compressed=compressed,
    )


def _respond(request: Request, file: PageFile) -> Response:
    headers = {"ETag": file.etag, "Cache-Control": file.cache_control, "Vary": "Accept-Encoding"}
    tags = [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]
    if file.etag in tags or "*" in tags:
        return Response(status_code=304, headers=headers)
    accepted = accepted_codings(request.headers.get("accept-encoding", ""))
    coding = next((coding for coding in COMPRESSED if coding in accepted and coding in file.compressed), None)
    if coding is None:
        return Response(file.plain, headers=headers, media_type=file.media_type)
    return Response(
        file.compressed[coding], headers={**headers, "Content-Encoding": coding}, media_type=file.media_type
    )


def accepted_codings(header: str) -> set[str]:
    """The content codings that a client accepts by name; one with a quality of 0 is refused."""
    parts = [coding.replace(" ", "").lower().partition(";") for coding in header.split(",")]
    return {coding for coding, _, quality in parts if not re.fullmatch(r"q=0(\.0*)?", quality)}
