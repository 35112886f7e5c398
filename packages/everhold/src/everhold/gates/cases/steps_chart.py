"""Steps that a gate about cases proves, against runs, as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt

from everhold.charts import styled

if TYPE_CHECKING:
    from everhold.gates.cases.steps import CasePlan


def case_plan_chart(plan: CasePlan) -> alt.LayerChart:
    """Smallest steps of a plan against runs: new cases, and new runs of these; nothing where none is provable."""
    points = [
        {"runs": row["runs"], "step": row[about], "promise": f"{about}, {row['cases']} cases"}
        for row in plan.to_rows()
        for about in ("new cases", "new runs")
        if isinstance(row[about], float)
    ]
    lines = (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("runs:Q", title="runs of each case", scale=alt.Scale(type="log", base=2)),
            y=alt.Y("step:Q", title="smallest step", scale=alt.Scale(domainMin=0)),
            color=alt.Color("promise:N", title=None),
        )
        .properties(width=460, height=280)
    )
    return styled(alt.layer(lines))  # type: ignore[no-any-return]
