"""Asks a Spark of its own through Connect: spark_connect_child.py FOLDER ROWS; prints what it says as JSON."""

import json
import sys
import time
from pathlib import Path

from engine_tables import interrupted, running_spark

from everhold.errors import EverholdError
from everhold_engines.spark import Spark


def said(folder, rows):
    with running_spark(folder, connect=True) as session:
        session.sql("SELECT 1 AS one").createOrReplaceTempView("mine")
        engine, view = Spark(session, rows), Spark(session, "mine")
        found = {
            "place": engine.place, "digest": engine.contents("key"),
            "view": view.rows(f"SELECT * FROM {view.source} AS t"), "zone": engine.rows("SELECT current_timezone()"),
            "theirs": session.conf.get("spark.sql.session.timeZone"),
            "columns": {name: kind.value for name, kind in engine.columns().items()},
        }  # fmt: skip
        started = time.monotonic()
        try:
            with interrupted(engine):
                engine.rows("SELECT sum(sqrt(id + 0.5)) FROM range(0, 100000000000, 1, 4)")
        except EverholdError as error:
            found |= {"ended": str(error), "seconds": time.monotonic() - started}
        view.close()
        engine.close()
        return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(said(Path(sys.argv[1]), sys.argv[2])))
