"""What is kept of a program's output, whatever the pieces it comes in."""

import random

import pytest

from atlas.programs.capture import HEAD_BYTES, MAX_LINE_LENGTH, TAIL_BYTES, Capture, Directives
from atlas.programs.runner import Stream
from atlas.programs.terminal_text import last_line, plain
from atlas.workers.commands.output import stored_text_of


def pieces(data: bytes, seed: int) -> list[bytes]:
    seeded, found = random.Random(seed), []
    while data:
        size = seeded.choice([1, 2, 3, 7, 100, 70_000])
        found.append(data[:size])
        data = data[size:]
    return found


@pytest.mark.parametrize("size", [0, 1, HEAD_BYTES, HEAD_BYTES + 1, HEAD_BYTES + TAIL_BYTES, 300_000])
def test_the_beginning_and_the_end_are_kept_of_any_length(size):
    data = random.Random(size).randbytes(size)
    capture = Capture()
    for piece in pieces(data, size):
        capture.feed(piece)

    assert capture.total == size
    assert capture.head == data[:HEAD_BYTES]
    assert capture.tail == data[HEAD_BYTES:][-TAIL_BYTES:]


def test_the_lines_for_atlas_are_found_however_the_output_is_cut():
    lines = [
        b"::progress 1 a",
        b"x::progress 2",
        b" ::no",
        b":: ",
        b"",
        b":",
        b"::output {}",
        b"plain",
        b"::",
        b":::x",
        b"::last",
    ]
    wanted = [line for line in lines if line.startswith(b"::")]
    for seed in range(300):
        for ending in (b"", b"\n"):
            directives, found = Directives(), []
            for piece in pieces(b"\n".join(lines) + ending, seed):
                found += directives.feed(piece)
            found += directives.end()
            assert found == wanted
            assert not directives.overlong


def test_a_line_that_never_ends_is_not_kept():
    directives = Directives()
    found = directives.feed(b"::output " + b"x" * MAX_LINE_LENGTH) + directives.feed(b"x" * 10**6 + b"\n::progress 3\n")

    assert found == [b"::progress 3"]
    assert directives.overlong


def test_terminal_control_sequences_are_removed():
    assert plain("\x1b[1;31mred\x1b[0m \x1b]0;title\x07end\x1b]8;;http://x\x1b\\link") == "red endlink"
    assert plain("\x9b31mred\x90payload\x9c!\x1b(Bx\x1bMy\x1b") == "red!xy"
    assert plain("10%\r50%\r\nend\x00\x08\x7f\ttab\u202e!") == "10%\n50%\nend\ttab!"
    assert plain("\x1b[") == ""
    assert plain("\x1b]0;never closed") == ""


def test_output_that_was_left_out_is_counted_where_it_was():
    assert stored_text_of(Stream(b"all of it", b"", 9), None) == "all of it"
    assert stored_text_of(Stream(b"begin \xc3", b"\xa4 end", 10_012), None) == "begin \n[10000 bytes left out]\n end"


def test_the_last_line_that_is_not_blank_is_found():
    assert last_line("a\n  b  \n\n \n") == "b"
    assert last_line("") == ""
