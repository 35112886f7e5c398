"""Common base of releases of a single number: noise on a fine grid, and a result that states its promise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from everhold.display import Display
from everhold.randomness import LARGEST_SCALE

if TYPE_CHECKING:
    from everhold.randomness import Noise

_FINE = 30  # the noise scale is about 2**30 steps of the grid
_LEAST_STEPS = 2**10
_ROUNDING = Fraction(1 + 2**-40)


@dataclass(frozen=True, slots=True)
class Release(Display):
    """A number that was released once, with what it promises.

    Attributes:
        value: The number with noise, in the units of the query.
        scale: Scale of the discrete Laplace noise that was drawn, in the units of the query.
        epsilon: Privacy loss of this release; another release costs as much again.
        statement: What is promised, in words.
        source: The theorem that proves it.
        step: Step of the grid on which value and noise live; the query has to be evaluated to within half of it.
        simulated: Whether the noise can be reproduced, so that the number is not private at all.
    """

    value: float
    scale: float
    epsilon: float
    statement: str
    source: str
    step: float
    simulated: bool


@dataclass(frozen=True, slots=True)
class NoiseGrid:
    """A grid on which Laplace noise of a scale is drawn, so that what is promised for real numbers stays true.

    The step is ``sensitivity / steps`` with a power of two of steps, about ``2**30`` in one noise scale. Two numbers
    that differ by ``h`` sensitivities are rounded to multiples of the step that differ by ``h * steps`` at most; if
    either was evaluated with an error of up to half a step, by ``h * (steps + 1)``. The noise is scaled for
    ``steps + 1``, rounded up, which costs at most a thousandth of the scale.

    Attributes:
        step: Step of the grid, in the units of the query; exact.
        scale: Scale of the discrete Laplace noise, in steps.
    """

    step: Fraction
    scale: int

    @classmethod
    def of(cls, *, sensitivity: float, multiple: float) -> NoiseGrid:
        """The grid for noise of scale ``multiple * sensitivity``.

        Raises:
            ValueError: If the scale is outside what can be drawn.
        """
        if not (multiple > 0.0 and multiple * _LEAST_STEPS < LARGEST_SCALE / 2):
            raise ValueError(
                f"the noise scale is {multiple:.4g} times what a row changes; expected more than 0 and less than "
                f"{LARGEST_SCALE // 2 // _LEAST_STEPS:.3g} times; ask for a larger epsilon"
            )
        steps = max(_LEAST_STEPS, 2 ** max(_FINE - math.ceil(math.log2(multiple)), 0))
        scale = math.ceil(Fraction(multiple) * _ROUNDING * (steps + 1))
        return cls(Fraction(sensitivity) / steps, scale)

    def noisy(self, value: float, noise: Noise, *, stream: str) -> float:
        """The value on the grid with noise; only this last conversion to a float is rounded, and it is of public data.

        Raises:
            ValueError: If the value is not finite; it is not quoted.
        """
        if not math.isfinite(value):
            raise ValueError("the value to release is not finite; expected a finite number; nothing was released")
        steps = math.floor(Fraction(value) / self.step + Fraction(1, 2))
        return float((steps + int(noise.laplace(self.scale, 1, stream=stream)[0])) * self.step)

    def release(
        self, value: float, noise: Noise, *, stream: str, epsilon: float, statement: str, source: str
    ) -> Release:
        """The value with noise, and what it promises.

        Raises:
            ValueError: If the value is not finite, or the noise cannot be drawn.
        """
        return Release(
            value=self.noisy(value, noise, stream=stream),
            scale=self.drawn_scale,
            epsilon=epsilon,
            statement=statement,
            source=source,
            step=float(self.step),
            simulated=noise.simulated,
        )

    @property
    def drawn_scale(self) -> float:
        """The noise scale in the units of the query."""
        return float(self.scale * self.step)
