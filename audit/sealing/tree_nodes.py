"""Reads nodes of the tree from the seals, without going through every leaf.

A seal stores its leaves and the frontier after it: the roots of the perfect subtrees at its left. A perfect subtree is
therefore in the frontier of any seal that ends after it and before its right neighbour is full; a right neighbour is
made of its halves, whose left one is again in some frontier. So an inclusion or consistency proof costs a number of
small reads that grows with the square of the tree's height, however many rows there are.
"""

from functools import lru_cache

from atlas.audit.verifier.tree import HASH, parent, sha256, split
from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, fetch_value, statement
from atlas.errors import AtlasError

FRONTIER = statement("audit/sealing/sql/tree_frontier.sql")
LEAVES = statement("audit/sealing/sql/tree_leaves.sql")

# Subtrees up to this height are made from their leaves, which come in one read.
BLOCK = 8
MAX_NODES = 50_000


class DamagedTree(AtlasError):
    """The seals do not hold the leaves that they should."""

    def __init__(self, index: int) -> None:
        super().__init__(
            f"The stored tree is damaged at leaf {index}.", remedy="Run `atlas audit verify`, which names the seal."
        )


class TreeNodes:
    """The tree as it was at `size` leaves, which must be the end of a seal."""

    def __init__(self, conn: Connection, size: int) -> None:
        self._conn = conn
        self._size = size
        self._nodes: dict[tuple[int, int], bytes] = {}

    async def root(self) -> bytes:
        """The root at that size."""
        return await self._subtree(0, self._size) if self._size else sha256(b"")

    async def leaf(self, index: int) -> bytes:
        """One leaf."""
        return await self._node(index, 0)

    async def inclusion(self, index: int) -> list[bytes]:
        """RFC 9162, 2.1.3.1: the path from a leaf to the root."""
        low, high, path = 0, self._size, []
        while high - low > 1:
            middle = low + _half(high - low)
            if index < middle:
                path.append(await self._subtree(middle, high))
                high = middle
            else:
                path.append(await self._subtree(low, middle))
                low = middle
        return path[::-1]

    async def consistency(self, size: int) -> list[bytes]:
        """RFC 9162, 2.1.4.1: that the tree of the first `size` leaves is the beginning of this one."""
        if size in (0, self._size):
            return []
        low, high, path = 0, self._size, []
        while size != high:
            middle = low + _half(high - low)
            if size <= middle:
                path.append(await self._subtree(middle, high))
                high = middle
            else:
                path.append(await self._subtree(low, middle))
                low = middle
        if low:
            path.append(await self._subtree(low, high))
        return path[::-1]

    async def _subtree(self, low: int, high: int) -> bytes:
        """The root over the leaves from `low` to `high`, as the RFC splits them."""
        if (high - low).bit_count() == 1:
            return await self._node(low, (high - low).bit_length() - 1)
        middle = low + _half(high - low)
        return parent(await self._subtree(low, middle), await self._subtree(middle, high))

    async def _node(self, low: int, height: int) -> bytes:
        """The root of a perfect subtree."""
        if (low, height) not in self._nodes:
            if len(self._nodes) > MAX_NODES:
                self._nodes.clear()
            if height <= BLOCK:
                await self._read_block(low >> BLOCK)
            else:
                self._nodes[low, height] = await self._high_node(low, height)
        if (low, height) not in self._nodes:
            raise DamagedTree(low)
        return self._nodes[low, height]

    async def _high_node(self, low: int, height: int) -> bytes:
        width = 1 << height
        if not low & width:
            row = await fetch_row(self._conn, FRONTIER, low=low + width, high=low + 2 * width, limit=self._size)
            if row is not None:
                size: int = row["size"]
                if len(row["frontier"]) != HASH * size.bit_count():
                    raise DamagedTree(size - 1)
                return split(row["frontier"])[(size >> (height + 1)).bit_count()]
        return parent(await self._node(low, height - 1), await self._node(low + width // 2, height - 1))

    async def _read_block(self, block: int) -> None:
        low = block << BLOCK
        packed = await fetch_value(self._conn, LEAVES, low=low, high=min(low + (1 << BLOCK), self._size))
        level, height = split(packed or b""), 0
        while level:
            self._nodes.update({(low + (at << height), height): hash for at, hash in enumerate(level)})
            level = [parent(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
            height += 1


@lru_cache(maxsize=1024)
def _half(count: int) -> int:
    """The largest power of two that is smaller than the count."""
    return 1 << (count - 1).bit_length() - 1
