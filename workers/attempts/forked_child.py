"""Keeps a child process that a handler forks from going on as a second copy of its worker.

A fork copies the event loop with every task in it, and the connections. A child that returned from the handler, or
awaited anything, would run the jobs of its worker a second time and write into the worker's sessions. So the child's
ends of the connections are replaced, nothing that was scheduled runs in it, and it ends as soon as it leaves the
handler. It may call exec or os._exit, compute, and run an event loop of its own: what the children of `multiprocessing`
do. A program that is started without code of Python between fork and exec is not affected.
"""

import asyncio
import gc
import os
import select
import signal
import threading
from contextlib import suppress
from typing import Any

from atlas.db.pool import cut_off_connections
from atlas.logs import get_logger

# The exit status of a child that left its handler.
RETURNED_STATUS = 70

log = get_logger("worker")

# What an event loop calls next, in asyncio and in uvloop; and those by which uvloop calls itself.
_HANDLES = ("Handle", "TimerHandle")
_LOOPS_OWN = ("<Handle loop.", "<Handle Loop.")

# A child that got one of these before it is separated would write it to the pipe that it shares with the worker. So
# the thread that forks blocks them until the child is separated; then they end the child alone.
_SIGNALS = {signal.SIGTERM, signal.SIGINT}
_masks = threading.local()

# True in a child that was forked while a worker served. Read for every job: a call would cost more.
is_child = False
_loops: list[asyncio.AbstractEventLoop] = []
_is_registered = False


def guard_forks(loop: asyncio.AbstractEventLoop) -> None:
    """From now on, keep the children of handlers on this event loop from using it."""
    global _is_registered
    _loops.append(loop)
    if not _is_registered:
        # It cannot be taken back.
        os.register_at_fork(before=_block_signals, after_in_parent=_unblock_signals, after_in_child=_begin_child)
        _is_registered = True


def stop_guarding(loop: asyncio.AbstractEventLoop) -> None:
    """No worker serves on this event loop any more."""
    _loops.remove(loop)


def end_child() -> None:
    """End this process, a child that left the handler that forked it."""
    message = "a process that a handler forked left the handler and ends; let it call os._exit or exec"
    with suppress(Exception):
        log.error(message, pid=os.getpid(), parent=os.getppid())
    os._exit(RETURNED_STATUS)


def _block_signals() -> None:
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _begin_child() -> None:
    try:
        _disarm()
    finally:
        _unblock_signals()


def _disarm() -> None:
    """In a new child: separate it from what it shares with the worker."""
    global is_child
    if not _loops:
        return
    is_child = True
    cut_off_connections()
    # The pipe that a signal is written to is shared: what ends the child would stop the worker.
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for loop in _loops:
        _replace_poll(loop)
        # It reads the objects of the process without writing to their pages, which the child shares until it does.
        for handle in gc.get_referrers(loop):
            if type(handle).__name__ in _HANDLES and not repr(handle).startswith(_LOOPS_OWN):
                handle.cancel()
        # It alone runs if the child returns to the event loop.
        loop.call_soon(end_child)


def _replace_poll(loop: Any) -> None:
    """Have the loop wait for nothing: the set of files that it waits for is shared with the worker."""
    if not hasattr(select, "epoll"):
        return
    number = loop._get_backend_id() if hasattr(loop, "_get_backend_id") else loop._selector.fileno()
    with select.epoll() as empty:
        os.dup2(empty.fileno(), number, inheritable=False)
