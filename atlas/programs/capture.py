"""Keeps the beginning and the end of a program's output, and finds the lines in it that are meant for Atlas.

The supervisor uses this in a process that has only the standard library.
"""

from atlas.bounds import MAX_INPUT

HEAD_BYTES = 16 * 1024
TAIL_BYTES = 48 * 1024
# An `::output` line may hold the largest output of a job.
MAX_LINE_LENGTH = MAX_INPUT + 64


class Capture:
    """Keeps the first 16 KiB and the last 48 KiB of a stream of any length, in bounded memory."""

    def __init__(self) -> None:
        self.total = 0
        self._head = bytearray()
        self._tail = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Add the next bytes."""
        self.total += len(chunk)
        room = HEAD_BYTES - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk[-TAIL_BYTES:]
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    @property
    def head(self) -> bytes:
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """The end of the stream, without what is in the head."""
        return bytes(self._tail[-TAIL_BYTES:])


class Directives:
    """Finds the lines that begin with `::` in chunks of any size, keeping at most one such line in memory."""

    def __init__(self) -> None:
        self.overlong = False
        self._line = bytearray()
        self._collecting = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete with this chunk."""
        lines: list[bytes] = []
        at = 0
        while at >= 0:
            at = self._collect(chunk, at, lines) if self._collecting else self._skip(chunk, at)
        return lines

    def end(self) -> list[bytes]:
        """The last line, if it has no line feed."""
        line, self._line = bytes(self._line), bytearray()
        return [line] if self._collecting and line.startswith(b"::") else []

    def _skip(self, chunk: bytes, at: int) -> int:
        """Skip what cannot be a directive. Returns where one may begin, or -1 at the end of the chunk."""
        newline = chunk.find(b"\n::", at)
        if newline >= 0:
            self._collecting = True
            return newline + 1
        begun = next((tail for tail in (b"\n:", b"\n") if chunk.endswith(tail, at)), None)
        if begun is not None:
            self._collecting = True
            self._line += begun[1:]
        return -1

    def _collect(self, chunk: bytes, at: int, lines: list[bytes]) -> int:
        """Collect a line that may be a directive. Returns where to go on, or -1 at the end of the chunk."""
        end = chunk.find(b"\n", at)
        piece = chunk[at:] if end < 0 else chunk[at:end]
        fits = len(self._line) + len(piece) <= MAX_LINE_LENGTH
        may_be_directive = (bytes(self._line[:2]) + piece[:2])[:2] in (b"::", b":", b"")
        if not fits or not may_be_directive:
            self.overlong = self.overlong or may_be_directive
            self._line.clear()
            self._collecting = False
            return at
        self._line += piece
        if end < 0:
            return -1
        if self._line.startswith(b"::"):
            lines.append(bytes(self._line))
        self._line.clear()
        self._collecting = False
        return end
