"""Compares a damaged batch with its sealed leaves: which rows are changed, missing or added."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from .format import HEAD, Report, Seal, counted, event_leaf, header_leaf

# How far a tenant's running numbers may be off after earlier rows were removed.
FARTHEST = 512


def explain(
    report: Report,
    seal: Seal,
    rows: Sequence[tuple[bytes, bytes]],
    stored: Sequence[bytes],
    numbers: Mapping[bytes, int],
) -> None:
    """Compare the rows with the sealed leaves, and report every difference."""
    if not stored or header_leaf(seal.header) != stored[-1]:
        message = f"Seal {seal.n} has a header that is not the sealed one."
        report.find("seal", message, seal=seal.n, leaves=(seal.leaves[1], seal.leaves[1]))
    expected = {leaf: position for position, leaf in enumerate(stored[:-1])}
    unknown = _take_known(rows, expected, dict(numbers))
    lost = sorted(expected.values())
    for id, position in zip(unknown, lost, strict=False):
        index = seal.first_index + position
        message = f"Row {id} is not as it was when seal {seal.n} was made at {seal.sealed_at}."
        report.find("row", message, row=id, seal=seal.n, leaves=(index, index))
    for id in unknown[len(lost) :]:
        message = f"Row {id} was added to seal {seal.n} after it had been made at {seal.sealed_at}."
        report.find("row", message, row=id, seal=seal.n)
    for first, last in _ranges(lost[len(unknown) :]):
        message = f"Missing: {counted(last - first + 1, 'row')} of seal {seal.n} (made at {seal.sealed_at})."
        report.find("row", message, seal=seal.n, leaves=(seal.first_index + first, seal.first_index + last))


def _take_known(
    rows: Iterable[tuple[bytes, bytes]], expected: dict[bytes, int], numbers: dict[bytes, int]
) -> list[int]:
    """Take the leaf of every unchanged row out of `expected`; return the ids of the other rows."""
    unknown = []
    for head, digest in rows:
        _, _, id, _, tenant = HEAD.unpack(head)
        after = numbers.get(tenant, 0)
        for number in range(after + 1, after + FARTHEST):
            if expected.pop(event_leaf(head, number, digest), None) is not None:
                numbers[tenant] = number
                break
        else:
            unknown.append(id)
    return unknown


def _ranges(positions: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Consecutive positions as their first and last."""
    first = last = None
    for position in positions:
        if last is not None and first is not None and position != last + 1:
            yield first, last
            first = None
        first, last = (position if first is None else first), position
    if first is not None and last is not None:
        yield first, last
