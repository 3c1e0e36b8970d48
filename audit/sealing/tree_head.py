"""The tree's head as the signer sees it: what there is to sign, and which key signs it."""

from dataclasses import dataclass, replace
from datetime import datetime

from atlas.audit.keys import SigningKey
from atlas.audit.verifier.signed_notes import VerifierKey
from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, statement
from atlas.errors import AtlasError

HEAD = statement("audit/sealing/sql/checkpoint_head.sql")


class OtherSigner(AtlasError):
    """Another key signs this epoch of the audit log."""

    def __init__(self, signer: str, key: SigningKey) -> None:
        super().__init__(
            f"This epoch of the audit log is signed by the key {signer}, not by this machine's {key.label}.",
            remedy="Let ATLAS_AUDIT_KEY_FILE name one key on every machine; a lost one needs `atlas audit new-epoch`.",
        )


@dataclass(frozen=True, slots=True)
class Head:
    """The tree's head, and the key with the name of the log that it signs.

    A log keeps the name of its first key. Where a later key is copied to another machine, only the database knows it.
    """

    size: int
    root: bytes
    epoch: int
    now: datetime
    key: SigningKey
    is_stored: bool
    # The key that has signed in this epoch, and the one that the epoch's event names.
    signer: str | None
    named: str | None

    def check_signer(self) -> None:
        """Refuse a key that is not this epoch's."""
        for label in (self.signer, self.named):
            if label not in (None, self.key.label):
                raise OtherSigner(str(label), self.key)


async def read_head(conn: Connection, key: SigningKey) -> Head | None:
    """What there is to sign; None before the first seal."""
    row = await fetch_row(conn, HEAD)
    if row is None:
        return None
    if row["newest"] is not None:
        key = replace(key, name=row["newest"].split("+")[0])
    named = None if row["named"] is None else VerifierKey.parse(row["named"]).label
    stored = key.label in row["stored"]
    return Head(row["size"], row["root"], row["epoch"], row["now"], key, stored, row["signer"], named)


async def named_as_log(conn: Connection, key: SigningKey) -> SigningKey:
    """The key under the name that the log has in the database."""
    head = await read_head(conn, key)
    return key if head is None else head.key
