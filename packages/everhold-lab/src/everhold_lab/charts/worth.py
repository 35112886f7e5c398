"""The picture of what the same rows are worth: the radius under each assumption (needs the extra ``[plots]``)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from everhold.charts import INK, styled

if TYPE_CHECKING:
    from collections.abc import Sequence

    import altair as alt

_BAR = "#56b4e9"
_MOST = 0.5  # a radius of half the range promises nothing
_WIDTH = 400
_PADDING = {"left": 48, "top": 16, "right": 64, "bottom": 16}  # a reader's font may be wider than the measured one


@dataclass(frozen=True, slots=True)
class WorthBar:
    """One bar of the picture.

    Attributes:
        assumption: What it is called.
        label: What stands beside it.
    """

    assumption: str
    radius: float
    label: str


def worth_chart(bars: Sequence[WorthBar], *, title: str) -> alt.LayerChart:
    """A bar for each assumption, with its label.

    Args:
        bars: From top to bottom; a radius of more than half the range is cut off there.
        title: The title of the horizontal axis.
    """
    import altair as alt

    lengths = [min(bar.radius, _MOST) for bar in bars]
    values = [asdict(bar) | {"length": length} for bar, length in zip(bars, lengths, strict=True)]
    scale = alt.Scale(domainMin=0.0, nice=True)
    named = alt.Axis(title=None, labelLimit=0, labelPadding=8, ticks=False, domain=False)
    ticks = alt.Axis(format="~%", grid=False, tickCount=6)
    shared: dict[str, Any] = {
        "x": alt.X("length:Q", title=title, scale=scale, axis=ticks),
        "y": alt.Y("assumption:N", sort=[bar.assumption for bar in bars], axis=named),
    }
    drawn = alt.Chart().mark_bar(color=_BAR, height={"band": 0.62}).encode(**shared)
    said = (
        alt.Chart()
        .mark_text(align="left", color=INK, fontSize=13)
        .encode(x=alt.value(_WIDTH + 12), y=shared["y"], text="label:N")
    )
    bars_and_text = alt.layer(drawn, said, data=alt.InlineData(values=values))
    sized = bars_and_text.properties(width=_WIDTH, height=52 * len(values))
    layered: alt.LayerChart = styled(sized, label_size=13, padding=_PADDING)
    return layered
