"""The demonstration on real flights: begin with `story`; `flights` reads them, `night` and `report` are parts of it."""
