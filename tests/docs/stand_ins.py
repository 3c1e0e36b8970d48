"""What a page writes where a reader puts in something of their own: an id, a token, an address.

| on the page | stands for |
| --- | --- |
| `<job id>`, `<run id>`, … | the id that a command printed last after that word, else the last id |
| `<id of db-1>` | the id that a command printed last after that name |
| `atl_…`, `whsec_…` | the token, or the secret, that a command printed last; at first an operator's token |
| `/hooks/<key>` | the path of a hook that a command printed last |
| `127.0.0.1:8080`, `https://atlas.example.com` | the page's own API |
| `postgresql://shop:secret@localhost/shop` | the page's own database, for that login |
| `postgresql://shop:secret@localhost/shop_restored` | another database of that server |
"""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TOKEN = re.compile(r"atl_[\w-]+")
_SECRET = re.compile(r"whsec_[\w+/=-]+")
_HOOK = re.compile(r"/hooks/[\w-]+")


@dataclass
class StandIns:
    """The values for one page."""

    owner_url: str
    port: int
    token: str
    secret: str = ""
    hook: str = ""
    printed: str = ""

    def learn(self, printed: str) -> None:
        """Take over what a command printed."""
        self.printed += printed + "\n"
        self.token = [self.token, *_TOKEN.findall(printed)][-1]
        self.secret = [self.secret, *_SECRET.findall(printed)][-1]
        self.hook = [self.hook, *_HOOK.findall(printed)][-1]

    def fill(self, text: str) -> str:
        """The text with the reader's own values."""
        text = re.sub(r"<(?:(\w+) id|id of ([^>]+))>", self._find_id, text)
        text = re.sub(
            r"postgresql://(\w+(?::[^@/]*)?)@localhost/(\w+)", lambda found: self.address(*found.groups()), text
        )
        text = text.replace("https://atlas.example.com", "http://127.0.0.1:8080")
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}").replace("atl_…", self.token)
        return text.replace("whsec_…", self.secret).replace("/hooks/<key>", self.hook)

    def unfill(self, printed: str) -> str:
        """What was printed, with the address that the page has."""
        return printed.replace(f"127.0.0.1:{self.port}", "127.0.0.1:8080")

    def address(self, credentials: str, database: str) -> str:
        """The page's database, or another one, for a login and its password."""
        parts = urlsplit(self.owner_url)
        path = f"/{database}" if database.endswith("_restored") else parts.path
        return urlunsplit(parts._replace(netloc=f"{credentials}@{parts.netloc.rpartition('@')[2]}", path=path))

    def _find_id(self, stand_in: re.Match[str]) -> str:
        name = stand_in[1] or stand_in[2]
        found = re.findall(rf"\b{re.escape(name)}\b[^\n]*?({_ID})", self.printed, re.IGNORECASE)
        if not found and stand_in[1]:
            found = re.findall(_ID, self.printed)
        assert found, f"nothing printed an id for {stand_in[0]}:\n{self.printed}"
        return str(found[-1])
