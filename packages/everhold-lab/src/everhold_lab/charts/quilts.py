"""The picture of a row's quilt: what is nearby, the quilt, and the remote rows behind it."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from everhold.charts import INK, styled
from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism

if TYPE_CHECKING:
    import altair as alt

    from everhold_lab.releases.markov_quilt import ActiveQuilt

_ROLES = {"the row": "#d55e00", "nearby": "#e69f00", "quilt": "#0072b2", "remote": "#999999"}  # Okabe and Ito, grey
_AROUND = 6  # remote rows shown to either side
_LEAST_WIDTH, _GAP = 0.012, 0.0012  # of the width of the picture


def quilts_chart(shown: MarkovQuiltMechanism | ActiveQuilt, row: int | None = None) -> alt.LayerChart:
    """The rows of a chain around one of them: nearby, quilt and remote.

    Args:
        shown: A mechanism on a chain, or one of its quilts.
        row: A row of the mechanism, from 0 on; one of those that need most noise if it is left out.
    """
    import altair as alt

    if isinstance(shown, MarkovQuiltMechanism):
        shown = shown.quilt_of(_hardest(shown) if row is None else row)
    runs = _runs(shown)
    colour = alt.Color(
        "role:N",
        scale=alt.Scale(domain=list(_ROLES), range=list(_ROLES.values())),
        legend=alt.Legend(title=None, orient="bottom", symbolType="square", symbolSize=220, columnPadding=30),
    )
    axis = alt.Axis(format="d", tickMinStep=1, grid=False)
    bars = (
        alt.Chart({"values": runs})
        .mark_rect(height=44)
        .encode(
            x=alt.X("first:Q", title="row", scale=alt.Scale(zero=False, nice=False), axis=axis),
            x2="last:Q",
            y=alt.value(50),
            color=colour,
            tooltip=["role:N", "rows:N"],
        )
    )
    labels = (
        alt.Chart({"values": [run for run in runs if run["role"] in ("the row", "quilt")]})
        .mark_text(fontSize=13, color=INK)
        .encode(x="middle:Q", y=alt.value(14), text="rows:N")
    )
    quilt = shown.quilt
    names = " and ".join(f"{node:,}" for node in quilt.quilt) or "empty"
    title = alt.TitleParams(
        f"Row {quilt.row:,}: {len(quilt.nearby):,} rows nearby, quilt {names}",
        subtitle=f"influence on the quilt {shown.influence:.3g}; noise scale of this row {shown.scale:.4g}",
    )
    drawn: alt.LayerChart = styled(alt.layer(bars, labels).properties(width=620, height=80, title=title), frame=False)
    return drawn


def _hardest(mechanism: MarkovQuiltMechanism) -> int:
    """The middle one of the rows that need most noise; they are mostly alike."""
    scales = mechanism.found.scale
    rows = np.flatnonzero(scales >= np.max(scales) * (1.0 - 1e-9))
    return int(rows[len(rows) // 2])


def _runs(shown: ActiveQuilt) -> list[dict[str, Any]]:
    """Neighbours with the same part, each as a bar from its first to its last row; narrow ones are widened."""
    quilt = shown.quilt
    role = {quilt.row: "the row"} | dict.fromkeys(quilt.nearby, "nearby") | dict.fromkeys(quilt.quilt, "quilt")
    window = range(max(min(role) - _AROUND, 0), min(max(role) + _AROUND, shown.rows - 1) + 1)
    gap = len(window) * _GAP
    runs = []
    for name, members in groupby(window, lambda node: role.get(node, "remote")):
        nodes = list(members)
        rows = f"{nodes[0]:,}" if len(nodes) == 1 else f"{nodes[0]:,} to {nodes[-1]:,}"
        middle, half = (nodes[0] + nodes[-1]) / 2, max(len(nodes), len(window) * _LEAST_WIDTH) / 2
        ends = {"first": middle - half + gap, "last": middle + half - gap, "middle": middle}
        runs.append({"role": name, "rows": rows, **ends})
    return sorted(runs, key=lambda run: run["role"] in ("the row", "quilt"))  # drawn last, on top of the others
