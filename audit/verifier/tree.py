"""The Merkle tree of RFC 9162: leaves are hashes, added at the right and never moved."""

import hashlib
from collections.abc import Iterable, Sequence

HASH = 32


def sha256(content: bytes) -> bytes:
    """The one hash function of the audit log."""
    return hashlib.sha256(content).digest()


def parent(left: bytes, right: bytes) -> bytes:
    """An inner node."""
    return sha256(b"\x01" + left + right)


def split(hashes: bytes) -> list[bytes]:
    """A byte string of hashes as a list."""
    return [hashes[at : at + HASH] for at in range(0, len(hashes), HASH)]


class Frontier:
    """The roots of the perfect subtrees that `size` leaves fall into, largest first: all that growing needs."""

    __slots__ = ("nodes", "size")

    def __init__(self, size: int = 0, nodes: bytes = b"") -> None:
        self.size = size
        self.nodes = split(nodes)
        if size < 0 or len(nodes) != HASH * size.bit_count():
            raise ValueError(f"{len(nodes)} bytes are not a frontier of a tree of {size} leaves")

    def extend(self, leaves: Iterable[bytes]) -> "Frontier":
        """Add leaves at the right; each costs one hash on average."""
        nodes, size, digest = self.nodes, self.size, hashlib.sha256
        for leaf in leaves:
            grown, left = leaf, size
            while left & 1:
                grown = digest(b"\x01" + nodes.pop() + grown).digest()
                left >>= 1
            nodes.append(grown)
            size += 1
        self.size = size
        return self

    def root(self) -> bytes:
        """The tree's root hash."""
        if not self.nodes:
            return sha256(b"")
        root = self.nodes[-1]
        for left in reversed(self.nodes[:-1]):
            root = parent(left, root)
        return root

    def packed(self) -> bytes:
        """The nodes as they are stored."""
        return b"".join(self.nodes)

    def copy(self) -> "Frontier":
        """A copy that can grow on its own."""
        return Frontier(self.size, self.packed())


def included(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """RFC 9162, 2.1.3.2: the leaf stands at `index` in the tree of that size and root."""
    if not 0 <= index < size:
        return False
    at, last, digest = index, size - 1, leaf
    for step in path:
        if last == 0:
            return False
        if at & 1 or at == last:
            digest = parent(step, digest)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            digest = parent(digest, step)
        at, last = at >> 1, last >> 1
    return last == 0 and digest == root


def consistent(size1: int, root1: bytes, size2: int, root2: bytes, path: Sequence[bytes]) -> bool:
    """RFC 9162, 2.1.4.2: the first tree is the beginning of the second."""
    if size1 == size2:
        return root1 == root2 and not path
    if not 0 < size1 < size2:
        return size1 == 0 < size2 and not path
    steps = [root1, *path] if size1.bit_count() == 1 else list(path)
    if not steps:
        return False
    at, last = size1 - 1, size2 - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    old = new = steps[0]
    for step in steps[1:]:
        if last == 0:
            return False
        if at & 1 or at == last:
            old, new = parent(step, old), parent(step, new)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            new = parent(new, step)
        at, last = at >> 1, last >> 1
    return last == 0 and old == root1 and new == root2
