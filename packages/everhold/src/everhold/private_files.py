"""Files and folders that only their owner may open, for every umask.

A file is created with its final permissions, so there is no moment at which others could open it. If others can open a
file or folder later, for example after a restored backup, it is made private again. A key that others could open is
refused, because they may have read it. Windows keeps no such permissions: there the folder's own access list decides.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from typing import TYPE_CHECKING

from everhold.errors import AuthError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_HAS_PERMISSIONS = os.name == "posix"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def create_private(path: Path, *, mode: int = 0o600) -> int:
    """Create a file that others cannot open, and return its descriptor, open for writing.

    Raises:
        OSError: If it cannot be created, or is there already.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)


def move_durably(source: Path, target: Path) -> None:
    """Give a finished file its new name in the same file system. The name must not exist yet.

    Raises:
        FileExistsError: If something has that name.
        OSError: If the file cannot be moved.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        source.rename(target)
    else:
        source.unlink()
    if sys.platform != "win32":  # where folders cannot be opened
        folder = os.open(target.absolute().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Context that marks a folder as in use, for `is_in_use` in all processes. The mark ends with the process."""
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def is_in_use(folder: Path) -> bool:
    """Return whether a process is within `in_use` of a folder."""
    if sys.platform == "win32":
        return False
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def keep_others_out(descriptor: int) -> None:
    """Lock an open file against other processes and descriptors. Waits, and ends when the file is closed."""
    if sys.platform == "win32":
        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def private_folder(path: Path, *, ours: Callable[[str], bool] = lambda _: True) -> None:
    """Make a folder that others cannot enter, or close an existing one to them.

    Args:
        path: Path of the folder.
        ours: Function that returns whether a name in the folder is one of everhold's. A folder with other content is
            not changed.

    Raises:
        FileExistsError: If others can enter it, and something in it is not everhold's.
        AuthError: If others can enter it and that cannot be changed.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir() or (_is_open(path) and not all(ours(each.name) for each in path.iterdir())):
            raise
        make_private(path)


def make_private(path: Path) -> None:
    """Make an existing file or folder accessible to its owner alone.

    Raises:
        AuthError: If others can open it and that cannot be changed. Nothing was charged.
    """
    if not _is_open(path):
        return
    with contextlib.suppress(OSError):  # looked at again below
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)
    if _is_open(path):
        raise AuthError(
            f"{path.name} is open to other users, and its permissions cannot be changed. Let the owner close it with "
            "chmod go-rwx, or move the storage to a file system that keeps permissions."
        )


def check_private(path: Path) -> None:
    """Check that only its owner can open a secret file.

    Raises:
        AuthError: If others can open it, because they may have read it.
    """
    if _is_open(path):
        raise AuthError(
            f"{path.name} is open to other users (mode {stat.S_IMODE(path.stat().st_mode):04o}). If nobody else has "
            f"read it, close it with chmod 400 {path.name}. Otherwise its certificates prove nothing any more, so "
            "seal new rows."
        )


def _is_open(path: Path) -> bool:
    """Return whether users other than the owner can open a file or folder. False if it does not exist."""
    try:
        return _HAS_PERMISSIONS and bool(path.stat().st_mode & _OTHERS)
    except FileNotFoundError:
        return False
