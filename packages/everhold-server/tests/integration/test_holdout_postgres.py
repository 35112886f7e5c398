"""A holdout whose ledger lies on a server: everything but the place is as on SQLite."""

import pickle
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa
from holdout_samples import guess_and_check, rows

from everhold import AuthError, Holdout, HoldoutNotFound, HoldoutRejected, verify_certificate
from everhold.asking.creation import settings_from
from everhold.errors import Unavailable
from everhold.ledger.address import ROWS_VARIABLE


def sealed(url, name="study", **wanted):
    wanted = {"holdout": rows(0), "label": "late", "mechanism": guess_and_check(), "allow_resealing": True, **wanted}
    return Holdout.create(url, name, training=rows(1), **settings_from(wanted))


def test_a_study_goes_its_whole_way(postgres, postgres_url, tmp_path):
    with sealed(postgres_url) as study:
        study.allot("team-a", queries=5, charges=1)
        first = study.ask("delay > 15")
        assert study.analyst("team-a").ask("delay > 15").value == first.value
        gate = study.gate("accuracy", champion=np.zeros(1_000, dtype=int))
        gate.challenge(np.ones(1_000, dtype=int))
        study.certificate().save(tmp_path / "study.json")
        assert postgres.password not in repr(study) + study._repr_html_() + str(study.status())
        with pickle.loads(pickle.dumps(study)) as copy:
            assert copy.ask("delay > 15").value == first.value
    assert verify_certificate(tmp_path / "study.json").ok
    assert postgres.password not in (tmp_path / "study.json").read_text()
    with Holdout.open(postgres_url, "study") as study:
        assert study.ask("delay > 15").value == first.value
    with pytest.raises(HoldoutNotFound, match="'study'"):
        Holdout.open(postgres_url, "flights")
    with pytest.raises(HoldoutRejected, match="named 'study' exists"):
        sealed(postgres_url)
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (tmp_path / "rows").rglob("*")} == {0}


def test_the_folder_of_the_rows_is_needed_and_may_come_from_the_environment(postgres, tmp_path, monkeypatch):
    url = postgres.url(postgres.new_database())
    monkeypatch.delenv(ROWS_VARIABLE, raising=False)
    with pytest.raises(ValueError, match="EVERHOLD_ROWS"):
        sealed(url)
    monkeypatch.setenv(ROWS_VARIABLE, str(tmp_path / "mine"))
    with sealed(url) as study:
        study.ask("delay > 15")
    assert [path.name.partition("-")[0] for path in (tmp_path / "mine").iterdir()] == ["study"]
    with pytest.raises(AuthError, match="name the folder that the rows are in"):
        Holdout.open(f"{url}?rows={tmp_path}/another", "study")


def test_a_refused_creation_leaves_nothing(postgres_url, tmp_path):
    with pytest.raises(HoldoutRejected):
        sealed(postgres_url, holdout={"delay": []})
    assert [*(tmp_path / "rows").rglob("*")] == []
    with pytest.raises(HoldoutNotFound):
        Holdout.open(postgres_url, "study")


def test_threads_of_several_open_holdouts_share_one_budget(postgres_url):
    with sealed(postgres_url) as study, Holdout.open(postgres_url, "study") as other, ThreadPoolExecutor(8) as pool:
        asked = [f"delay > {number}" for number in range(20)]
        told = [*pool.map(lambda k: (study, other)[k % 2].ask(asked[k // 2]).value, range(40))]
        assert told[::2] == told[1::2]
        assert study.remaining == other.remaining
        assert len(study.transcript()) == 20


def test_a_folder_that_is_not_there_is_said_before_anything_is_sealed(postgres, tmp_path):
    url = postgres.url(postgres.new_database(), rows=tmp_path / "no" / "rows")
    with pytest.raises(HoldoutRejected, match="Create it first"):
        sealed(url)
    assert not Path(tmp_path / "no").exists()


@pytest.mark.parametrize("committed", [True, False])
def test_rows_are_kept_where_nobody_knows_whether_they_were_recorded(postgres_url, tmp_path, monkeypatch, committed):
    """Otherwise a holdout without rows would keep the name for ever."""
    whole = sa.Connection.commit

    def lost(connection):
        if list(tmp_path.glob("rows/*/ledger.head")):
            whole(connection) if committed else connection.rollback()
            raise sa.exc.DBAPIError("COMMIT", {}, psycopg.OperationalError("server closed the connection"))
        whole(connection)

    with monkeypatch.context() as patch:
        patch.setattr(sa.Connection, "commit", lost)
        with pytest.raises(Unavailable, match="exists if it is listed"):
            sealed(postgres_url)
    if committed:
        with Holdout.open(postgres_url, "study") as study:
            assert study.ask("delay > 15").charged <= 1
    else:
        sealed(postgres_url).close()
