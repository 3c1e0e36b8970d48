"""The HTML of a mail as a document of its own that is safe to show: no script, nothing loaded, nothing sent.

Two layers, each enough by itself: what may run or load is removed from the text, and the document's own policy lets the
browser run and load nothing. It is shown in a frame of our pages, so this answer alone may be framed by them.
"""

import re

import nh3

# Inline styles are what mails are made of, and pictures may come within the mail. Everything else is refused.
# Links lead nowhere: in a frame they would replace the mail.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
TAGS = (nh3.ALLOWED_TAGS | {"font"}) - {"map", "area"}
ATTRIBUTES: dict[str, set[str]] = {
    "*": {"style", "title", "align", "valign", "width", "height", "bgcolor", "color", "dir", "lang"},
    "img": {"src", "alt"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan"},
    "table": {"border", "cellpadding", "cellspacing"},
    "font": {"face", "size"},
}
# None of these takes an address.
STYLES = {
    *(
        "color",
        "background-color",
        "direction",
        "display",
        "vertical-align",
        "width",
        "height",
        "max-width",
        "min-width",
    ),
    *("font", "font-family", "font-size", "font-style", "font-weight", "letter-spacing", "line-height", "white-space"),
    *("text-align", "text-decoration", "text-transform", "text-indent", "word-break", "overflow-wrap"),
    *(
        f"{kind}{side}"
        for kind in ("margin", "padding", "border")
        for side in ("", "-top", "-right", "-bottom", "-left")
    ),
    *("border-collapse", "border-color", "border-radius", "border-spacing", "border-style", "border-width"),
    *("table-layout", "list-style-type"),
}
SCHEMES = {"data"}
_PICTURE = re.compile(r"data:image/(png|gif|jpeg|webp);base64,", re.IGNORECASE)
_DOCUMENT = (
    '<!doctype html><html><head><meta charset="utf-8"><title>Mail</title></head>'
    '<body style="margin:16px;background:#fff;color:#111;font:14px sans-serif;overflow-wrap:anywhere">{}</body></html>'
)


def safe_document(html: str) -> str:
    """A whole document with what is harmless of a mail's HTML."""
    cleaned = nh3.clean(
        html,
        tags=TAGS,
        attributes=ATTRIBUTES,
        attribute_filter=_kept,
        url_schemes=SCHEMES,
        filter_style_properties=STYLES,
    )
    return _DOCUMENT.format(cleaned)


def _kept(tag: str, attribute: str, value: str) -> str | None:
    """The value of an attribute, or None for a picture that would be loaded from elsewhere."""
    return value if attribute != "src" or _PICTURE.match(value) else None
