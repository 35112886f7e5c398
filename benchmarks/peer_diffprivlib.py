"""diffprivlib's ``tools.mean`` with its budget accountant, in an environment of its own (``make peers``)."""

from __future__ import annotations

import base64
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, cast

import numpy as np

from benchmarks.peer_base import CONFIDENCE, REFUSED, Peer, around
from everhold_lab.published import jung_radius, laplace_sample_failure
from everhold_lab.published.classical import ApproximateCurve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.peer_base import Queries, Sample

__all__ = ["AccountedMeans", "is_installed"]

_HERE = Path(__file__).parent
_PYTHON = _HERE.parent / ".venv-peers" / "bin" / "python"
_SLACKS = (1e-3, 1e-4, 1e-5, 1e-6)


def is_installed() -> bool:
    """Whether the environment of the peers is there."""
    return _PYTHON.with_name("installed-peers").exists()


class _Session:
    """A process that answers one line of JSON with another."""

    def __init__(self) -> None:
        command = [str(_PYTHON), str(_HERE / "diffprivlib_session.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._stdin, self._stdout = cast("TextIO", self._process.stdin), cast("TextIO", self._process.stdout)

    def __call__(self, kind: str, **request: Any) -> dict[str, Any]:
        print(json.dumps({"kind": kind, **request}), file=self._stdin, flush=True)
        reply: dict[str, Any] = json.loads(self._stdout.readline())
        return reply

    def close(self) -> None:
        self._process.communicate()


class _Settings(NamedTuple):
    width: float
    epsilon: float
    total: float
    slack: float


@cache
def _best_settings(rows: int, queries: int) -> _Settings:
    """The epsilon of one answer and the slack of their composition with the least width by P7."""
    epsilons = np.geomspace(1.0, 100.0, 25) / np.sqrt(rows * queries)
    settings = [(float(epsilon), slack) for epsilon in epsilons for slack in _SLACKS]
    session = _Session()
    totals = session("totals", queries=queries, settings=settings)["totals"]
    session.close()

    def width(epsilon: float, total: tuple[float, float]) -> float:
        failure = laplace_sample_failure(1.0 / (rows * epsilon), answers=queries)
        return jung_radius(failure, ApproximateCurve(*total), CONFIDENCE).radius

    return min(
        _Settings(width(epsilon, total), epsilon, total[0], slack)
        for (epsilon, slack), total in zip(settings, totals, strict=True)
    )


class AccountedMeans(Peer):
    """``tools.mean`` for every query, until the accountant refuses; the seconds are those inside its process."""

    def __init__(self, sample: Sample, *, queries: int) -> None:
        rows = len(sample.sealed)
        best = _best_settings(rows, queries)
        super().__init__(sample, width=best.width, setting=f"eps {best.epsilon:.2g}, slack {best.slack:.0e}")
        self._session = _Session()
        self._session(
            "start", rows=rows, labels=_packed(sample.sealed), epsilon=best.epsilon,
            total=best.total * (1.0 + 1e-12), slack=best.slack,
        )  # fmt: skip

    def ask(self, queries: Queries) -> NDArray[np.float64]:
        """As for every peer, without the time of the pipe."""
        return np.array([self._answer(*pair) for pair in zip(queries.sealed, queries.training, strict=True)])

    def _answer(self, sealed: NDArray[np.bool_], training: NDArray[np.bool_]) -> tuple[float, float, float]:
        reply = self._session("ask", predicted=_packed(sealed))
        self.seconds += reply["seconds"]
        return REFUSED if reply["value"] is None else around(reply["value"], self.width)

    def close(self) -> None:
        """End the process."""
        self._session.close()


def _packed(values: NDArray[np.bool_]) -> str:
    return base64.b64encode(np.packbits(values).tobytes()).decode()
