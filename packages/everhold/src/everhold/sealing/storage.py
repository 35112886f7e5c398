"""Address of a holdout: the database, its name, and the private folder of its rows."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from typing import TYPE_CHECKING

from everhold.arguments import brief
from everhold.errors import HoldoutRejected, Unavailable
from everhold.ledger.address import rows_beside
from everhold.private_files import private_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = [
    "DEFAULT_STORAGE",
    "HOLDOUT_FILE",
    "TRAINING_FILE",
    "check_name",
    "check_name_is_free",
    "is_folder_name",
    "new_folder",
    "rows_folder",
    "storage_url",
]

DEFAULT_STORAGE = "sqlite:///everhold.db"
HOLDOUT_FILE, TRAINING_FILE = "holdout.parquet", "training.parquet"  # in a holdout's folder
_NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")
_FOLDERS = re.compile(rf"{_NAMES.pattern}-[0-9a-f]{{8}}")


def storage_url(storage: str | Path) -> str:
    """A storage as a URL; a plain path is an SQLite file.

    Examples:
        >>> storage_url("flights.db")
        'sqlite:///flights.db'
    """
    if not isinstance(storage, (str, os.PathLike)):
        raise ValueError(f"the storage is {brief(storage)}; expected a path or a URL such as sqlite:///study.db")
    text = os.fspath(storage)
    return text if "://" in text else f"sqlite:///{text}"


def check_name(name: str) -> None:
    """Check that a holdout may be called so."""
    if not isinstance(name, str) or not _NAMES.fullmatch(name):
        raise HoldoutRejected(
            f"the name {brief(name)} cannot be used; expected up to 64 letters, digits, blanks, dots, dashes and "
            "underscores, beginning with a letter or digit; nothing was created"
        )


def rows_folder(storage: str | Path) -> Path:
    """Folder of the private folders of a storage's holdouts: beside an SQLite file, or as its address says.

    Raises:
        ValueError: If the address cannot be used, or says nothing of the folder where it has to.
    """
    return rows_beside(storage_url(storage))


def is_folder_name(folder: str) -> bool:
    """True if it is the name of a folder that `new_folder` makes: a plain name that leads nowhere else."""
    return _FOLDERS.fullmatch(folder) is not None


def check_name_is_free(name: str, names: Sequence[str]) -> None:
    """Check that no other holdout has the name."""
    if name in names:
        raise HoldoutRejected(
            f"there is a holdout named {name!r} already; expected a new name; nothing was created", name=name
        )


@contextlib.contextmanager
def new_folder(rows: Path, name: str) -> Iterator[Path]:
    """A private folder for the rows of one holdout; gone again if that fails, and surely nothing was recorded.

    Args:
        rows: Where those of all holdouts of the storage are; made if it is missing, in a folder that is there.
        name: Of the holdout.

    Raises:
        HoldoutRejected: If it cannot be made.
    """
    if not rows.parent.is_dir():
        raise HoldoutRejected(
            f"the folder {str(rows.parent)!r} of the storage does not exist; expected an existing one; "
            "create it first; nothing was created"
        )
    folder = rows / f"{name}-{secrets.token_hex(4)}"
    try:
        private_folder(folder.parent)  # mkdir(parents=True) would make this one as the umask says
        private_folder(folder)
    except OSError as fault:
        raise HoldoutRejected(
            f"the folder for the rows, {rows.name!r}, cannot be made: {fault.strerror}; expected a writable folder; "
            "check its permissions; nothing was created"
        ) from None
    try:
        yield folder
    except BaseException as fault:
        if isinstance(fault, Unavailable) and fault.data.get("may_be_recorded"):
            raise
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # other holdouts live there
            folder.parent.rmdir()
        raise
