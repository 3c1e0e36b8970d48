"""The tree, against known values and against a second implementation that shares nothing with the first."""

import hashlib
from random import Random

import pytest

from atlas.audit.verifier.tree import Frontier, consistent, included

# The leaves and roots that implementations of RFC 6962 and RFC 9162 test themselves with.
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


# The second implementation: the recursive definitions of RFC 9162, section 2.1, word for word.
def h(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def power_below(n: int) -> int:
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def mth(leaves: list[bytes]) -> bytes:
    match len(leaves):
        case 0:
            return h(b"")
        case 1:
            return leaves[0]
        case n:
            k = power_below(n)
            return h(b"\x01" + mth(leaves[:k]) + mth(leaves[k:]))


def path(m: int, leaves: list[bytes]) -> list[bytes]:
    if len(leaves) == 1:
        return []
    k = power_below(len(leaves))
    if m < k:
        return [*path(m, leaves[:k]), mth(leaves[k:])]
    return [*path(m - k, leaves[k:]), mth(leaves[:k])]


def proof(m: int, leaves: list[bytes]) -> list[bytes]:
    return subproof(m, leaves, whole=True)


def subproof(m: int, leaves: list[bytes], *, whole: bool) -> list[bytes]:
    if m == len(leaves):
        return [] if whole else [mth(leaves)]
    k = power_below(len(leaves))
    if m <= k:
        return [*subproof(m, leaves[:k], whole=whole), mth(leaves[k:])]
    return [*subproof(m - k, leaves[k:], whole=False), mth(leaves[:k])]


def leaves_of(random: Random, count: int) -> list[bytes]:
    return [random.randbytes(32) for _ in range(count)]


KNOWN = [h(b"\x00" + bytes.fromhex(content)) for content in INPUTS]


@pytest.mark.parametrize("size", range(1, 9))
def test_the_known_roots_come_out(size):
    assert Frontier().extend(KNOWN[:size]).root().hex() == ROOTS[size - 1]
    assert mth(KNOWN[:size]).hex() == ROOTS[size - 1]


def test_the_empty_tree_has_the_hash_of_nothing():
    assert Frontier().root().hex() == EMPTY


def test_the_paths_of_the_rfcs_example_come_out():
    """RFC 9162, 2.1.5: a tree of seven leaves, its nodes by the letters that the RFC gives them."""
    a, b, c, d, e, f, j = KNOWN[:7]
    g, hh, i = (h(b"\x01" + x + y) for x, y in ((a, b), (c, d), (e, f)))
    k, m = h(b"\x01" + g + hh), h(b"\x01" + i + j)
    root = h(b"\x01" + k + m)
    for index, steps in ((0, [b, hh, m]), (3, [c, g, m]), (4, [f, j, k]), (6, [i, k])):
        assert path(index, KNOWN[:7]) == steps
        assert included(KNOWN[index], index, 7, steps, root)
    for size, steps in ((3, [c, d, g, m]), (4, [m]), (6, [i, j, k])):
        assert proof(size, KNOWN[:7]) == steps
        assert consistent(size, mth(KNOWN[:size]), 7, root, steps)


@pytest.mark.long
def test_two_implementations_agree_on_ten_thousand_random_trees():
    random = Random(9162)
    for _ in range(10_000):
        leaves = leaves_of(random, random.randint(1, random.choice([3, 9, 33])))
        size, root = len(leaves), mth(leaves)
        cut = random.randint(0, size)
        assert Frontier().extend(leaves[:cut]).extend(leaves[cut:]).root() == root

        index = random.randrange(size)
        assert included(leaves[index], index, size, path(index, leaves), root)

        old = random.randint(1, size)
        assert consistent(old, mth(leaves[:old]), size, root, proof(old, leaves))


def test_no_false_inclusion_or_consistency_passes():
    random = Random(1)
    for _ in range(1000):
        leaves = leaves_of(random, random.randint(2, 40))
        size, root = len(leaves), mth(leaves)
        index = random.randrange(size)
        steps = path(index, leaves)
        other = random.choice([one for one in range(size) if one != index])
        assert not included(leaves[other], index, size, steps, root)
        assert not included(leaves[index], other, size, steps, root)
        assert not included(leaves[index], index, size, steps[:-1], root)
        assert not included(leaves[index], index, size, [*steps, root], root)
        assert not included(leaves[index], size, size, steps, root)

        old = random.randint(1, size - 1)
        steps = proof(old, leaves)
        forged = leaves_of(random, 1) + leaves[1:]
        assert not consistent(old, mth(forged[:old]), size, root, steps)
        assert not consistent(old, mth(leaves[:old]), size, mth(forged), steps)
        assert not consistent(old, mth(leaves[:old]), size, root, steps[:-1])
        assert not consistent(size, root, old, mth(leaves[:old]), steps)


def test_a_frontier_goes_on_from_its_stored_form():
    leaves = leaves_of(Random(2), 100)
    stored = Frontier().extend(leaves[:77])

    assert Frontier(77, stored.packed()).extend(leaves[77:]).root() == mth(leaves)
    with pytest.raises(ValueError, match="not a frontier"):
        Frontier(79, stored.packed())
