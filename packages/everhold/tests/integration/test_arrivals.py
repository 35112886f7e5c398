"""A holdout that grows: appending, asking about earlier rows, refusals, crashes, and two processes at once."""

import json

import numpy as np
import pytest
from sealed_copies import copy_of

import everhold as eh
from everhold.asking.arrivals import appending
from everhold.errors import EverholdWarning, HoldoutRejected, IntegrityError, QueryRejected
from everhold.ledger import LedgerStore, verify


def table(rows, seed, *, mean=5.0):
    rng = np.random.default_rng(seed)
    return {
        "delay": rng.normal(mean, 30.0, rows), "late": rng.integers(0, 2, rows),
        "carrier": rng.choice(["AA", "UA", "DL"], rows),
    }  # fmt: skip


@pytest.fixture
def storage(tmp_path):
    return f"sqlite:///{tmp_path}/s.db"


def created(storage, name="h", *, grows=True, **more):
    planning = eh.Planning(grows=grows)
    settings = {"queries": 100, "surprises": 5, "planning": planning, **more}
    return eh.Holdout.create(storage, name, holdout=table(600, 1), training=table(600, 2), **settings)


def growing(folder):
    return created(f"sqlite:///{folder}/s.db")


@pytest.fixture
def holdout(tmp_path):
    with copy_of(tmp_path, growing, storage="s.db", name="h") as made:
        yield made


def folder_of(holdout):
    return holdout._folder


def files_of(holdout):
    return sorted(path.name for path in folder_of(holdout).iterdir() if "spilled" not in path.name)


def test_old_answers_stay_and_new_ones_are_narrower(holdout):
    before = holdout.ask("delay > 15")
    arrived = holdout.append(table(1_800, 3), until="2026-01-31")
    assert (arrived.arrival, arrived.total, arrived.tree) == (1, 2_400, None)
    after = holdout.ask("delay > 15")
    assert not after.repeated
    assert after.high - after.low < before.high - before.low
    assert after.query != before.query
    assert holdout.ask("delay > 15", as_of=0).low == before.low
    assert holdout.ask("delay > 15").repeated
    with pytest.raises(QueryRejected, match="that were given at that arrival"):
        holdout.ask("delay > 40", as_of=0)
    assert holdout.status()["rows"] == 2_400


def test_every_tree_counts_every_answer_and_the_budget_refills(holdout):
    for high in (10, 20, 30):
        holdout.ask(f"delay > {high}", guess=0.97)
    arrived = holdout.append(table(600, 3))
    assert arrived.tree == 2
    holdout.ask("delay > 5")
    trees = holdout.status()["arrivals"]["trees"]
    assert [(tree["tree"], tree["queries"], tree["surprises"]) for tree in trees] == [(1, 4, 3), (2, 1, 0)]
    assert [tree["rows"] for tree in trees] == [1_200, 600]
    holdout.append(table(3_000, 4))
    assert holdout.status()["arrivals"]["answers_from"] == 2
    holdout.ask("delay > 25")
    assert holdout.remaining["surprises"] == 5
    assert holdout.transcript().rows[-1]["rows"] == [601, 4_200]


def test_a_look_at_parts_is_the_look_at_one_table(storage):
    tables = [table(600, seed) for seed in (1, 3, 4)]
    whole = {name: np.concatenate([each[name] for each in tables]) for name in tables[0]}
    with created(storage) as grown:
        grown.append(tables[1])
        grown.append(tables[2])
        executor = grown._executor
        for text in ("delay > 15", "carrier == 'AA' or late == 1", "delay / 100"):
            bound = executor.compiler.bind(eh.mean(text, low=0, high=1))
            sums = executor.sealed.totals([bound])[0, 0]
            values = {"delay > 15": whole["delay"] > 15, "delay / 100": np.clip(whole["delay"] / 100, 0, 1)}
            expected = values.get(text, (whole["carrier"] == "AA") | (whole["late"] == 1))
            assert sums / 2**30 == pytest.approx(expected.sum(), abs=1e-3)
        predictions = np.ones(1_800)
        assert executor.sealed.table(["late"])["late"].shape == predictions.shape


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"delay": [1.0, 2.0]}, "no column"),
        ({**table(5, 9), "more": np.zeros(5)}, "a column 'more'"),
        ({**table(5, 9), "delay": ["a"] * 5}, "'delay' as"),
        (table(0, 9), "empty"),
        (table(600, 1), "already in this holdout"),
        (table(600, 2), "are training rows"),
        (None, "no rows"),
    ],
    ids=["columns missing", "columns added", "types", "empty", "sealed", "training", "none"],
)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_changed(holdout, rows, said):
    before, head = files_of(holdout), holdout.status()["ledger_head"]
    with pytest.raises(HoldoutRejected, match=said):
        holdout.append(rows)
    assert any(name.startswith("known-000000") for name in before)
    assert set(files_of(holdout)) - set(before) <= {"append.lock"}
    assert holdout.status()["ledger_head"] == head


def test_training_rows_that_are_sealed_are_refused(holdout):
    with pytest.raises(HoldoutRejected, match="already in this holdout"):
        holdout.append(table(50, 4), training=table(600, 1))
    holdout.append(table(50, 4))
    with pytest.raises(HoldoutRejected, match="already"):
        holdout.append(table(50, 4), training=table(50, 6))


def test_the_same_append_again_is_the_same_arrival(holdout):
    given = {"rows": table(100, 3), "training": table(300, 4), "until": "2026-01-31"}
    first = holdout.append(**given)
    holdout.ask("delay > 15")
    head = holdout.status()["ledger_head"]
    assert holdout.append(**given) == first
    assert holdout.status()["ledger_head"] == head
    with pytest.raises(HoldoutRejected, match="as arrival 1 with another until="):
        holdout.append(**given | {"until": "2026-02-01"})
    holdout.append(table(100, 5), until="2026-02-28")
    with pytest.raises(HoldoutRejected, match="already"):
        holdout.append(**given | {"until": "2026-02-28"})  # not the latest one
    assert "arrival-000003.parquet" not in files_of(holdout)


def test_rows_that_hardly_differ_are_new_rows_each_time(tmp_path):
    rows = {"late": [0, 1] * 300}
    with eh.Holdout.create(
        tmp_path / "s.db", "h", holdout=rows, training=rows, mechanism="guess_and_check", allow_resealing=True
    ) as holdout:
        few = {"late": [0, 1] * 30}
        assert [holdout.append(few).total for _ in range(2)] == [660, 720]


def test_rows_of_another_holdout_are_refused(storage, holdout):
    with eh.Holdout.create(storage, "o", holdout=table(600, 7), training=table(600, 8)):
        with pytest.raises(HoldoutRejected, match="as 'o'"):
            holdout.append(table(600, 7))
        holdout.append(table(600, 9))
        with pytest.raises(HoldoutRejected, match="as 'h'"):
            eh.Holdout.create(storage, "p", holdout=table(600, 9), training=table(600, 10))


def test_times_do_not_run_backwards(holdout):
    holdout.append(table(50, 3), until="2026-02-01")
    with pytest.raises(HoldoutRejected, match="a later time"):
        holdout.append(table(50, 4), until="2026-01-01")
    for wrong in ("soon", "2026-13-45", "2026-3-1", "", 5):  # each would keep all later dates out
        with pytest.raises(HoldoutRejected, match=f"until is {wrong!r}. Pass a date such as '2026-12-01'"):
            holdout.append(table(50, 4), until=wrong)
    holdout.append(table(50, 4), until="2026-02-01T06:00")
    with pytest.raises(HoldoutRejected, match="a later time"):
        holdout.append(table(50, 5), until="2026-02-01 05:00")
    assert holdout.status()["arrivals"]["number"] == 2


def test_training_rows_arrive_as_well(holdout):
    holdout.append(table(100, 3), training=table(300, 4))
    assert holdout.status()["training_rows"] == 900
    assert holdout.ask("delay > 15").source in ("training", "holdout")


@pytest.mark.parametrize("moment", ["written", "before the entry", "after the entry"])
def test_killed_at_any_moment_it_is_there_or_not(storage, holdout, monkeypatch, moment):
    class Killed(BaseException):
        pass

    def killed(*_args, **_named):
        raise Killed

    place = {"written": "_check_elsewhere", "before the entry": "_tree", "after the entry": "_result"}[moment]
    with monkeypatch.context() as patched:
        patched.setattr(appending, "remove_orphans", lambda *_, **__: None)  # a killed process tidies nothing up
        patched.setattr(appending, place, killed)
        with pytest.raises(Killed):
            holdout.append(table(100, 3))
    assert "arrival-000001.parquet" in files_of(holdout)
    with eh.Holdout.open(storage, "h") as again:
        there = moment == "after the entry"
        assert again.status()["rows"] == (700 if there else 600)
        assert again.ask("delay > 15").value is not None
        arrived = again.append(table(100, 3))  # the same call again
        assert (arrived.arrival, arrived.rows, arrived.total) == (1, 100, 700)
        assert again.status()["rows"] == 700


def test_another_process_sees_rows_that_arrived(storage, holdout):
    with eh.Holdout.open(storage, "h") as other:
        other.append(table(600, 3))
        assert holdout.ask("delay > 15").value is not None
        assert holdout.transcript().rows[-1]["rows"] == [1, 1_200]
        holdout.append(table(600, 4))
        assert other.ask_many(["delay > 5", "delay > 6"])[0].value is not None
        assert other.status()["rows"] == 1_800
        assert other.quote("delay > 7").radius == holdout.quote("delay > 7").radius


def test_a_file_that_was_altered_is_found(storage, holdout):
    holdout.append(table(100, 3))
    holdout.close()
    path = folder_of(holdout) / "arrival-000001.parquet"
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(IntegrityError, match="arrival-000001"):
        eh.Holdout.open(storage, "h")


def test_windows_over_time_show_a_change(holdout):
    holdout.append(table(600, 3), until="2026-01-20")
    holdout.append(table(600, 4), until="2026-01-30")
    holdout.append(table(3_000, 5, mean=80.0), until="2026-02-28")
    found = holdout.over_time("delay > 15", by="month")
    assert [(row["window"], row["rows"]) for row in found.rows] == [
        ("at creation", 600), ("2026-01", 1_200), ("2026-02", 3_000)
    ]  # fmt: skip
    assert not found.one_law_is_credible
    assert ("2026-01", "2026-02") in found.changed
    asked = holdout.status()["queries_asked"]
    holdout.append(table(100, 6), until="2026-03-01")
    with pytest.warns(EverholdWarning, match="changed between windows, with confidence 0.95"):
        again = holdout.over_time("delay > 15", by="month", law="one")
    assert again.rows[:2] == [
        {**row, "joint_low": again.rows[place]["joint_low"], "joint_high": again.rows[place]["joint_high"]}
        for place, row in enumerate(found.rows[:2])
    ]
    assert holdout.status()["queries_asked"] == asked + 1
    assert [row["joint_low"] is None for row in again.rows] == [False, False, True, True]
    assert all(row["joint_low"] <= row["joint_high"] for row in again.rows[:2])
    assert "'2026-01' and '2026-02'" in again.contradiction or "'at creation' and '2026-02'" in again.contradiction
    assert str(again).endswith("pass law='windows'.")
    assert again.contradiction.split(",")[0] in again._repr_html_()
    again.plot().to_dict()
    assert not found.contradiction
    with pytest.raises(QueryRejected, match="Pass 'windows' or 'one'"):
        holdout.over_time("delay > 15", law="two")
    with pytest.raises(QueryRejected, match="'arrival'"):
        holdout.over_time("delay > 15", by="week")


def test_the_first_window_is_one_query_before_and_after_rows_arrive(holdout):
    before = holdout.over_time("delay > 15").to_rows()
    holdout.append(table(600, 3))
    assert holdout.over_time("delay > 15").to_rows()[0] == before[0]
    assert holdout.status()["queries_asked"] == 2


def test_the_timeline_has_widths_and_the_budget_around_each_arrival(holdout):
    assert holdout.arrivals.timeline() == []
    holdout.ask("delay > 10", guess=0.97)
    arrived = holdout.append(table(600, 3), training=table(300, 4), until="2026-01-31")
    holdout.ask("delay > 15")
    first, second, now = holdout.arrivals.timeline()
    assert (first["total"], first["within_before"], first["arrival"]) == (600, None, 0)
    assert (second["within_before"], second["within"]) == (arrived.within_before, arrived.within)
    assert (second["queries"], second["surprises"], second["tree"]) == (1, 1, 2)
    assert (now["queries"], now["total"], now["arrival"]) == (2, 1_200, None)
    assert now["within"] == min(tree["within"] for tree in holdout.status()["arrivals"]["trees"])
    holdout.retire(1)
    assert holdout.arrivals.timeline()[-1]["within"] == holdout.status()["arrivals"]["trees"][0]["within"]


def test_retired_rows_are_opened_and_train(holdout):
    for high in (10, 20):
        holdout.ask(f"delay > {high}", guess=0.97)
    with pytest.raises(QueryRejected, match=r"Rows before arrival 1 cannot be retired.*grows=True"):
        holdout.retire(1)
    assert holdout.append(table(600, 3)).tree == 2
    opened = holdout.retire(1)
    assert opened.num_rows == 600
    for arrival in (None, 1):
        with pytest.raises(QueryRejected, match=r"No arrival can be compared .* because older rows are retired"):
            holdout.drift(arrival)
    head = holdout.status()["ledger_head"]
    assert holdout.retire(1).equals(opened)  # as after an interruption
    assert holdout.status()["ledger_head"] == head
    status = holdout.status()
    assert (status["rows"], status["training_rows"]) == (600, 1_200)
    answer = holdout.ask("delay > 25")
    assert answer.value is not None
    assert holdout.transcript().rows[-1]["rows"] == [601, 1_200]
    with pytest.raises(QueryRejected, match="have no sealed rows"):
        holdout._executor.growth.window(0, 0)
    holdout.append(table(600, 4))
    assert holdout.drift(columns=["delay"]).arrival == 2


def test_retiring_warns_of_holdouts_that_have_the_same_rows(storage, holdout):
    created(storage, "other", allow_resealing=True).close()
    holdout.ask("delay > 10", guess=0.97)
    holdout.append(table(600, 3))
    with pytest.warns(EverholdWarning, match="sealed as 'other', too"):
        holdout.retire(before=1)


def test_ledger_and_certificate_hold_arrivals(storage, holdout, tmp_path):
    holdout.ask("delay > 10", guess=0.97)
    holdout.append(table(600, 3), training=table(100, 4), until="2026-01-31")
    holdout.retire(1)
    answer = holdout.ask("delay > 15")
    with LedgerStore.open(storage) as store:
        assert verify(store, "h", seal_key=holdout._executor.key.seal_key).ok
    certificate = holdout.certificate({"late flights": answer})
    (shown,) = certificate.to_dict()["summary"]["answers"]
    assert shown["rows"] == [601, 1_200]
    assert [query.get("rows") for query in certificate.to_dict()["account"]["queries"]] == [None, [601, 1_200]]
    assert "600 sealed rows and 600 that arrived later" in str(certificate.to_html())
    account = certificate.to_dict()["account"]
    assert [each["rows"] for each in account["arrivals"]] == [600]
    assert account["retired"][0]["before"] == 1
    path = tmp_path / "c.html"
    certificate.save(path)
    assert eh.verify_certificate(path).ok
    assert "arrival 1" in path.read_text()
    told = json.dumps(holdout.status().to_dict())
    assert "arrival-0000" not in told


@pytest.mark.parametrize("settings", [
    {"dependence": eh.Groups(2)}, {"mechanism": "privacy_budget"}, {"declared": [eh.texts()]},
], ids=["groups", "noise", "families"])  # fmt: skip
def test_what_cannot_grow_is_refused(storage, settings):
    if settings.get("mechanism") == "privacy_budget":
        pytest.importorskip("everhold_privacy")
    with created(storage, grows=False, **settings) as made, pytest.raises(QueryRejected, match="cannot be appended"):
        made.append(table(100, 3))


def test_after_an_arrival_families_are_refused(holdout):
    holdout.append(table(100, 3))
    with pytest.raises(QueryRejected, match="declaring a family does not support"):
        holdout.declare("f", eh.texts())


def test_a_family_that_is_declared_while_rows_are_written_ends_the_append(storage, holdout, monkeypatch):
    sealed = appending.seal_arrival

    def meanwhile(*earlier, **rows):
        files = sealed(*earlier, **rows)
        with eh.Holdout.open(storage, "h") as other:
            other.declare("texts", eh.texts(40))
        return files

    monkeypatch.setattr(appending, "seal_arrival", meanwhile)
    with pytest.raises(QueryRejected, match="declared, which do not support arrivals"):
        holdout.append(table(600, 3))
    assert holdout.status()["rows"] == 600


def test_an_analyst_appends_and_retires_nothing(holdout):
    holdout.allot("a", queries=5)
    holdout.append(table(100, 3))
    analyst = holdout.analyst("a")
    assert analyst.ask("delay > 3").value is not None
    for act in (lambda: analyst.append(table(100, 4)), lambda: analyst.retire(1)):
        with pytest.raises(QueryRejected, match="Only the steward can"):
            act()


def test_a_holdout_without_growth_narrows_and_opens_no_tree(storage):
    with created(storage, grows=False) as made:
        assert "grows" not in made._executor.record.configuration
        made.ask("delay > 10", guess=0.97)
        arrived = made.append(table(600, 3))
        assert arrived.tree is None
        assert arrived.within < arrived.within_before


def test_after_a_loss_the_rows_can_come_again_and_no_tree_opens(storage, holdout, tmp_path):
    holdout.ask("delay > 10", guess=0.97)
    holdout.close()
    copy = (tmp_path / "s.db").read_bytes()
    with eh.Holdout.open(storage, "h") as later:
        assert later.append(table(600, 3)).tree == 2
        later.ask("delay > 12", guess=0.97)
    for path in tmp_path.glob("s.db*"):
        path.unlink()
    (tmp_path / "s.db").write_bytes(copy)
    with pytest.raises(IntegrityError):
        eh.Holdout.open(storage, "h")
    with eh.Holdout.open(storage, "h", recover=True) as again:
        assert again.status()["charged"] == 2
        assert again.append(table(600, 3)).tree is None


def test_a_tree_opens_at_the_counts_of_its_entry(holdout, monkeypatch):
    holdout.ask("delay > 10", guess=0.97)
    real, asked = appending._tree, []

    def asks_meanwhile(growth, *args):
        made = real(growth, *args)
        if not asked:
            asked.append(holdout.ask("delay > 20"))
        return made

    monkeypatch.setattr(appending, "_tree", asks_meanwhile)
    assert holdout.append(table(600, 3)).tree == 2
    assert holdout.status()["arrivals"]["trees"][1]["queries"] == 0


def households(count, seed, *, size=3):
    rows = table(count * size, seed)
    return {**rows, "home": [f"h{seed}-{number // size}" for number in range(count * size)]}


def with_groups(storage):
    return eh.Holdout.create(
        storage, "h", holdout=households(300, 1), training=households(300, 2), queries=60, surprises=4,
        dependence=eh.Groups("home"), planning=eh.Planning(grows=True, allow_vacuous=True),
    )  # fmt: skip


def test_whole_groups_arrive_and_count_with_their_sizes(storage):
    with with_groups(storage) as made:
        made.ask("delay > 15", guess=0.99)
        arrived = made.append(households(200, 3, size=6))
        assert (arrived.rows, arrived.tree) == (1_200, 2)
        every, later = (executor.mechanism.dependence for executor in made._executor.growth.executors)
        assert (every.counts, later.counts) == (((3, 300), (6, 200)), ((6, 200),))
        answer = made.ask("delay > 15", guess=0.99)
        truth = np.concatenate([households(300, 1)["delay"], households(200, 3, size=6)["delay"]]) > 15
        assert answer.value == pytest.approx(truth.mean(), abs=0.02)
        assert made.arrivals.timeline()[1]["within"] == arrived.within
        made.over_time("delay > 15")
    with eh.Holdout.open(storage, "h") as again:
        assert again.status()["rows"] == 2_100


def test_groups_of_a_text_column_need_no_training_rows(storage):
    rows = households(300, 1)
    planning = eh.Planning(allow_vacuous=True)
    with eh.Holdout.create(storage, holdout=rows, queries=20, dependence=eh.Groups("home"), planning=planning) as made:
        assert made.mechanism.dependence.counts == ((3, 300),)


def changed(rows, **more):
    return {**rows, **{name: [value, *rows[name][1:]] for name, value in more.items()}}


@pytest.mark.parametrize(
    ("rows", "training", "said"),
    [
        (changed(households(50, 3), home="h1-7"), None, "1 group .* already in the sealed rows"),
        (changed(households(50, 3), home=" H1-7"), None, "spelled in several ways"),
        (changed(households(50, 3), home="h2-7"), None, "1 group .* already in the training rows"),
        (None, changed(households(50, 4), home="h1-7"), "1 group .* already in the sealed rows"),
        (households(50, 3), changed(households(50, 4), home="h3-7"), "1 group .* already in the training rows"),
        (changed(households(50, 3), home=None), None, "missing values"),
    ],
    ids=["sealed", "spelled otherwise", "training", "training of sealed", "both", "missing"],
)
def test_groups_that_span_an_arrival_are_refused(storage, rows, training, said):
    with with_groups(storage) as made:
        head = made.status()["ledger_head"]
        with pytest.raises(HoldoutRejected, match=said):
            made.append(rows, training=training)
        assert made.status()["ledger_head"] == head


def test_drift_is_diagnosed_and_paid_for(holdout):
    with pytest.raises(QueryRejected, match="No rows have arrived"):
        holdout.drift()
    holdout.append(table(600, 3))
    asked = holdout.status()["queries_asked"]
    quiet = holdout.drift()
    assert [row["changed"] for row in quiet.rows] == [False] * 3
    assert holdout.status()["queries_asked"] == asked + 6
    assert holdout.drift().rows == quiet.rows
    holdout.append(table(3_000, 5, mean=80.0))
    with pytest.warns(eh.errors.EverholdWarning, match="population changed with arrival 2"):
        found = holdout.drift(columns=["delay", "carrier"], also=["delay > 60"])
    assert [row["changed"] for row in found.rows] == [True, False, True]
    asked = holdout.status()["queries_asked"]
    bins = eh.histogram("delay", [0, 15])
    for wrong in ({"arrival": 9}, {"arrival": 0}, {"columns": ["height"]}, {"also": ["delay > 61", bins]}):
        with pytest.raises(QueryRejected, match=r"be compared|one answer"):
            holdout.drift(**wrong)
    with pytest.raises(QueryRejected, match="one answer"):
        holdout.over_time(bins)
    assert holdout.status()["queries_asked"] == asked


UNIVERSE = {"columns": [{"name": "late", "values": [0, 1], "rest": 0}]}
TOLD_ONCE = {
    "a table": lambda: eh.synthesize(UNIVERSE, 1),
    "a quantile": lambda: eh.quantile("delay", low=-100, high=300),
    "a choice": lambda: eh.choose(["delay > 15", "late = 1"], best="highest"),
    "a scan": lambda: eh.first_above(["delay > 15", "late = 1"], threshold=0.4),
}


@pytest.mark.parametrize("query", TOLD_ONCE.values(), ids=TOLD_ONCE)
def test_what_is_told_once_is_another_query_about_more_rows(holdout, query):
    first = holdout.ask(query())
    assert holdout.ask(query()).repeated
    holdout.append({**table(1_800, 3, mean=200.0), "late": np.ones(1_800, dtype=int)})
    again = holdout.ask(query())
    assert not again.repeated
    assert again.query != first.query
    assert holdout.ask(query(), as_of=0).query == first.query


def test_a_table_is_not_made_again_from_other_training_rows(holdout):
    first = holdout.ask(eh.synthesize(UNIVERSE, 1))
    holdout.append(training={**table(1_800, 3), "late": np.ones(1_800, dtype=int)})
    again = holdout.ask(eh.synthesize(UNIVERSE, 1))
    assert not again.repeated
    assert abs(again.table.weights[1] - first.table.weights[1]) <= again.within + first.within


@pytest.mark.parametrize(("few", "many"), [(0.05, 0.45), (0.9, 0.5)])
def test_drift_of_a_label_that_is_mostly_alike_is_seen(storage, few, many):
    rng = np.random.default_rng(0)
    sealed, training, arriving = (
        {"x": rng.normal(size=rows), "y": (rng.random(rows) < share).astype(int)}
        for rows, share in ((3_000, few), (3_000, few), (3_000, many))
    )
    with eh.Holdout.create(
        storage, "h", holdout=sealed, training=training, label="y", planning=eh.Planning(grows=True)
    ) as holdout:
        holdout.append(arriving)
        with pytest.warns(eh.errors.EverholdWarning, match='changed with arrival 1: mean of "y"'):
            holdout.drift()
