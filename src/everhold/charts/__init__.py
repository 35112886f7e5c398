"""Pictures, as Altair charts: plans, dependence, and the style that all of them share."""
