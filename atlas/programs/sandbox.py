"""The sandbox of a program: an unprivileged user, resource limits, a session, and a way to kill all its processes.

The supervisor uses this in a process that has only the standard library.
"""

import contextlib
import ctypes
import fcntl
import os
import pwd
import random
import resource
import select
import signal
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence

# As root, each running program has a user of its own out of this range: the kernel counts processes by user, and
# one signal reaches all processes of a user at once.
FIRST_UID, LAST_UID = 62_000, 62_999
UID_LOCKS = "/run/atlas-uids"
KILL_SECONDS = 3.0
KILL_PAUSE = 0.002

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVS = 1, 36, 38
_MEBIBYTE = 2**20


def adopt_orphans() -> None:
    """From now on, descendants of this process whose parent ends become its children."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def lease_uid() -> tuple[int, int] | None:
    """An unprivileged user that no other program has now, and the lock on it. None if this is not root."""
    if os.geteuid() != 0:
        return None
    _make_lock_folder()
    uids = list(range(FIRST_UID, LAST_UID + 1))
    random.shuffle(uids)
    for uid in uids:
        lock = os.open(f"{UID_LOCKS}/{uid}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        if not _is_known_user(uid):
            return uid, lock
        os.close(lock)
    raise OSError(f"all users from {FIRST_UID} to {LAST_UID} are taken")


def become_program(
    argv: Sequence[str],
    env: Mapping[str, str],
    folder: str,
    limits: Mapping[str, int],
    *,
    uid: int | None,
    supervisor: int,
) -> None:
    """Turn this process, a fresh child of `supervisor`, into the program. Never returns; raises OSError."""
    os.setsid()
    os.chdir(folder)
    os.umask(0o077)
    if limits:
        _limit(limits, uid)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    # No setuid program gives it privileges, and it ends with its supervisor.
    _prctl(_SET_NO_NEW_PRIVS, 1)
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(127)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.execve(
        argv[0].encode(),
        [argument.encode() for argument in argv],
        # Values from the environment may hold any byte.
        {name.encode(): value.encode("utf-8", "surrogateescape") for name, value in env.items()},
    )


def end_all(group: int, uid: int | None) -> Iterator[tuple[int, int, resource.struct_rusage]]:
    """Kill the program's group and all other descendants of this process. Yields those that are reaped.

    Ends when none is left, or after some seconds: a process that hangs in the kernel cannot be killed.
    """
    for _ in range(int(KILL_SECONDS / KILL_PAUSE)):
        _signal(-group, signal.SIGKILL)
        if uid is not None:
            _kill_user(uid)
        else:
            _kill_descendants()
        yield from reap()
        if not _has_children():
            return
        select.select([], [], [], KILL_PAUSE)


def end_user(uid: int) -> None:
    """Kill the processes of a program whose supervisor is gone. Turns this process into the program's user.

    It takes the lock that the supervisor held: a newer program of the same user is not touched.
    """
    lock = os.open(f"{UID_LOCKS}/{uid}", os.O_RDWR | os.O_NOFOLLOW)
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.setresuid(uid, uid, uid)
        _signal(-1, signal.SIGKILL)


def reap() -> Iterator[tuple[int, int, resource.struct_rusage]]:
    """The children that have ended: pid, wait status, resource usage."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            yield pid, status, used


def _limit(limits: Mapping[str, int], uid: int | None) -> None:
    cpu = limits["cpu_seconds"]
    # The kernel counts all tasks of a user together, so those that exist already are added.
    processes = limits["processes"] + (_tasks_of_this_user() if uid is None else 0)
    for kind, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_FSIZE, limits["file_size_mb"] * _MEBIBYTE, limits["file_size_mb"] * _MEBIBYTE),
        (resource.RLIMIT_NOFILE, limits["files"], limits["files"]),
        (resource.RLIMIT_NPROC, processes, processes),
        (resource.RLIMIT_AS, limits["memory_mb"] * _MEBIBYTE, limits["memory_mb"] * _MEBIBYTE),
    ):
        _, ceiling = resource.getrlimit(kind)
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        resource.setrlimit(kind, (soft, hard))


def _tasks_of_this_user() -> int:
    uid, count = os.getuid(), 0
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def _kill_user(uid: int) -> None:
    """Send one signal to all processes of the program's user. The kernel lets none escape it by a fork."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(uid, uid, uid)
            _signal(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def _kill_descendants() -> None:
    """Stop all of them before killing any: a stopped process counts against the limit and cannot fork."""
    stopped: set[int] = set()
    while fresh := set(_descendants(os.getpid())) - stopped:
        for pid in fresh:
            _signal(pid, signal.SIGSTOP)
        stopped |= fresh
    for pid in stopped:
        _signal(pid, signal.SIGKILL)


def _descendants(pid: int) -> Iterator[int]:
    waiting = _children(pid)
    while waiting:
        child = waiting.pop()
        yield child
        waiting += _children(child)


def _children(pid: int) -> list[int]:
    pids: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as listed:
                pids += map(int, listed.read().split())
    return pids


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _make_lock_folder() -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(UID_LOCKS, 0o700)
    facts = os.lstat(UID_LOCKS)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != 0 or facts.st_mode & 0o022:
        raise OSError(f"{UID_LOCKS} is not a folder that only root can write to")


def _is_known_user(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(option, value, 0, 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
