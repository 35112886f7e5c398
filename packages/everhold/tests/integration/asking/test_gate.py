"""Keep or revert: real steps are promoted and luck is not, by many processes, after a restart, and within limits."""

import json
from functools import partial

import numpy as np
import pytest
from gate_children import challenge_all
from prepared_processes import prepared_processes
from sealed_copies import copy_of
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score, precision_score, recall_score

import everhold as eh
from everhold.asking.creation import settings_from
from everhold.gates.records import Gates
from everhold.gates.rows import RowEvidence
from everhold.guarantees.intervals.means import SignTest
from everhold.ledger.acts import Accounts

ROWS = 2_000


def world(seed=0, count=ROWS):
    """Features, labels that half follow them, and champion predictions that are right three times in four."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, 2))
    late = (features[:, 0] + 0.5 * features[:, 1] + rng.normal(size=count) > 0).astype(int)
    champion = np.where(rng.random(count) < 0.75, late, 1 - late)
    return {"x": features[:, 0], "z": features[:, 1], "late": late}, champion


def create(folder, *, queries=1_000, surprises=8, **wanted):
    sealed, _ = world(0)
    training, _ = world(1)
    wanted = {"training": training, "mechanism": "guess_and_check", "allow_resealing": True, **wanted}
    return eh.Holdout.create(
        f"sqlite:///{folder}/study.db",
        "study",
        holdout=sealed,
        label="late",
        queries=queries,
        **settings_from({**wanted, "surprises": surprises}),
    )


@pytest.fixture
def holdout(tmp_path):
    with copy_of(tmp_path, create) as made:
        yield made


def better(champion, labels, *, by, seed):
    """The same predictions, more of them right."""
    wrong = np.flatnonzero(champion != labels)
    mended = np.random.default_rng(seed).choice(wrong, by, replace=False)
    changed = champion.copy()
    changed[mended] = labels[mended]
    return changed


def lucky(champion, share, seed):
    """The same predictions with some turned round without a look at labels: worse for new labels, if anything."""
    turned = np.random.default_rng(seed).random(len(champion)) < share
    return np.where(turned, 1 - champion, champion)


def test_real_steps_are_promoted_and_each_is_the_champion_of_the_next(holdout):
    sealed, champion = world(0)
    gate = holdout.gate(eh.accuracy, champion=champion)
    before = gate.champion
    for step in range(3):
        champion = better(champion, sealed["late"], by=120, seed=step)
        verdict = gate.challenge(champion)
        assert verdict.promoted
        assert bool(verdict)
        assert (verdict.low, verdict.charged, verdict.promotions) == (0.0, 1, step + 1)
        assert verdict.champion == gate.champion != before
        before = gate.champion
    assert holdout.status()["charged"] == 3
    assert str(verdict).startswith("promoted: accuracy is better by more than 0 (proved), charged 1")
    assert "however many challengers failed in between" in verdict.explain()


def test_kept_costs_nothing_but_a_query_and_promises_nothing(holdout):
    _, champion = world(0)
    gate = holdout.gate("accuracy", champion=champion)
    verdict = gate.challenge(lucky(champion, 0.05, 1))
    assert (verdict.promoted, verdict.low, verdict.high, verdict.charged) == (False, None, None, 0)
    assert verdict.champion == gate.status()["first_champion"]
    assert verdict.remaining["queries"] == 999
    assert "promises nothing" in verdict.explain()


class OneShot(SignTest):
    """The protection removed: every challenge is judged as if it were the only one."""

    def interval(self, seen, nats):
        return super().interval(seen, -np.log(2.0 * 0.05))


CHALLENGERS = 300


def play(folder, name, *, seed):
    """Challengers of coins among which two are real steps; returns how many of either kind were promoted."""
    labels = np.random.default_rng(seed).integers(0, 2, ROWS)
    champion = np.where(np.random.default_rng(seed + 1).random(ROWS) < 0.75, labels, 1 - labels)
    coins = np.arange(ROWS) < 0.8 * ROWS  # here predictions are coins, whatever they are
    champion[coins] = np.random.default_rng(seed + 2).integers(0, 2, ROWS)[coins]
    table = {"x": np.arange(ROWS, dtype=float), "late": labels}
    found = {True: 0, False: 0}
    with eh.Holdout.create(
        f"sqlite:///{folder}/study.db",
        name,
        holdout=table,
        allow_resealing=True,
        label="late",
        mechanism="guess_and_check",
        queries=CHALLENGERS,
        surprises=10,
    ) as holdout:
        gate = holdout.gate(eh.accuracy, champion=champion)
        for number in range(CHALLENGERS):
            real = number % 150 == 149
            if real:
                outside = np.where(coins, labels, champion)  # all else as it is: the step is not of coins
                challenger = np.where(coins, champion, better(outside, labels, by=40, seed=number))
            else:
                turned = coins & (np.random.default_rng([seed, number]).random(ROWS) < 0.05)
                challenger = np.where(turned, 1 - champion, champion)
            if gate.challenge(challenger).promoted:
                found[real] += 1
                champion = challenger
    return found


def test_luck_is_not_promoted_where_it_is_without_protection(tmp_path, monkeypatch):
    assert play(tmp_path, "protected", seed=40) == {True: 2, False: 0}
    monkeypatch.setattr("everhold.gates.candidates.SignTest", OneShot)
    assert play(tmp_path, "as if alone", seed=40)[False] >= 2


def test_a_challenge_of_the_same_champion_is_free_another_time_and_has_the_same_verdict(holdout):
    sealed, champion = world(0)
    gate = holdout.gate(eh.accuracy, champion=champion)
    first = gate.challenge(lucky(champion, 0.05, 1))
    again = gate.challenge(lucky(champion, 0.05, 1))
    assert again.repeated
    assert not first.repeated
    assert (again.query, again.remaining, again.challenges) == (first.query, first.remaining, 1)
    winner = better(champion, sealed["late"], by=120, seed=0)
    won = gate.challenge(winner)
    once_more = gate.challenge(winner)  # as after a crash between the commit and the reader
    assert (once_more.promoted, once_more.repeated, once_more.charged) == (True, True, 0)
    assert once_more.query == won.query
    assert holdout.status()["queries_asked"] == 2


def test_the_first_champion_challenging_itself_is_kept_and_asks_nothing(holdout):
    _, champion = world(0)
    gate = holdout.gate(eh.accuracy, champion=champion)
    verdict = gate.challenge(champion)
    assert (verdict.promoted, verdict.charged, verdict.challenges) == (False, 0, 0)
    assert holdout.status()["queries_asked"] == 0


def test_predictions_that_differ_nowhere_but_in_type_are_kept(holdout):
    _, champion = world(0)
    gate = holdout.gate(eh.accuracy, champion=champion)
    assert not gate.challenge(champion.astype(bool)).promoted


def test_a_gate_compares_by_scores_by_their_names_and_refuses_others(tmp_path):
    _, champion = world(0)
    with create(tmp_path) as holdout:
        asked = holdout.status()["queries_asked"]
        with pytest.raises(eh.QueryRejected, match=r"average_precision.*nearest.*roc_auc"):
            holdout.gate("average_precision", champion=champion)
        with pytest.raises(eh.QueryRejected, match="The metric of a gate is 'height'"):
            holdout.gate("height", champion=champion)
        assert holdout.status()["queries_asked"] == asked
        gate = holdout.gate("neg_log_loss", champion=np.clip(champion, 0.1, 0.9))
        assert holdout.gate(name="gate").champion == gate.champion
        assert gate.challenge(np.full(len(champion), 0.5)).metric == "log loss, from 0 to 6.90776 for a row"


SCORES = {
    "f1": f1_score, "precision": precision_score, "recall": recall_score,
    "balanced_accuracy": balanced_accuracy_score, "f1_macro": partial(f1_score, average="macro"),
}  # fmt: skip


@pytest.mark.parametrize("name", SCORES)
def test_a_gate_compares_scores_of_outcomes(tmp_path, name):
    sealed, champion = world(0)
    labels = sealed["late"]
    with create(tmp_path) as holdout:
        gate = holdout.gate(name, champion=champion, margin=0.01)
        assert not gate.challenge(champion).promoted
        assert not any(gate.challenge(lucky(champion, 0.02, seed)).promoted for seed in range(5))
        winner = better(champion, labels, by=250, seed=0)
        verdict = gate.challenge(winner)
        assert (verdict.promoted, verdict.low, verdict.metric) == (True, 0.01, name)
    with eh.Holdout.open(f"sqlite:///{tmp_path}/study.db", "study") as holdout:
        gate = holdout.gate(name="gate")
        assert not gate.challenge("x > 0").promoted  # a rule
        training, _ = world(1)
        fitted = LogisticRegression().fit(np.stack([training["x"], training["z"]], axis=1), training["late"])
        assert not gate.challenge(fitted).promoted
        holdout.unseal()
        gains = [row for row in holdout.transcript().rows if row["source"] in ("promoted", "kept")]
        sealed_gain = next(row["sealed"] for row in gains if row["source"] == "promoted")
        score = SCORES[name]
        assert sealed_gain == pytest.approx(score(labels, winner) - score(labels, champion), abs=1e-9)
        assert all(row["sealed_low"] <= row["sealed"] + 1e-9 for row in gains)


def test_scores_of_outcomes_need_independent_rows_and_two_classes(tmp_path):
    sealed, champion = world(0)
    with create(tmp_path, dependence=eh.Groups(2)) as holdout:
        with pytest.raises(eh.QueryRejected, match="f1 is promised for independent rows"):
            holdout.gate("f1", champion=champion)
        assert "gates" not in holdout.status()
    labels = np.where(sealed["x"] > 1.0, 2, sealed["late"])
    with eh.Holdout.create(
        f"sqlite:///{tmp_path}/three.db", "three", holdout={**sealed, "late": labels}, label="late", queries=1_000,
        mechanism="guess_and_check", rows=eh.Rows(features="public"),
    ) as holdout, pytest.raises(eh.QueryRejected, match="labels 0 and 1"):  # fmt: skip
        holdout.gate("f1", champion=champion)


def test_a_gate_goes_on_after_a_restart_with_the_same_champion(tmp_path):
    sealed, champion = world(0)
    winner = better(champion, sealed["late"], by=120, seed=0)
    with create(tmp_path) as holdout:
        holdout.gate(eh.accuracy, champion=champion, name="nightly").challenge(winner)
    with eh.Holdout.open(f"sqlite:///{tmp_path}/study.db", "study") as holdout:
        gate = holdout.gate(name="nightly")  # the metric is known
        again = holdout.gate(eh.accuracy, champion=champion, name="nightly")
        assert gate.champion == again.champion != gate.status()["first_champion"]
        assert gate.status()["promotions"] == 1
        assert gate.challenge(better(winner, sealed["late"], by=120, seed=1)).promoted
        assert again.status()["promotions"] == 2


def test_two_processes_share_one_champion_and_every_promotion_beats_the_one_before(tmp_path):
    sealed, champion = world(0)
    models = [champion]
    for step in range(12):
        models.append(better(models[-1], sealed["late"], by=30, seed=step))
    np.save(tmp_path / "models.npy", np.array(models[1:]))
    with create(tmp_path) as holdout:
        holdout.gate(eh.accuracy, champion=champion)
    barrier, results = prepared_processes.Barrier(2), prepared_processes.Queue()
    storage = f"sqlite:///{tmp_path}/study.db"
    children = [prepared_processes.Process(target=challenge_all, args=(storage, n, barrier, results)) for n in range(2)]
    for child in children:
        child.start()
    told = [verdict for _ in children for verdict in results.get(timeout=100)]
    for child in children:
        child.join()
    with eh.Holdout.open(storage, "study") as holdout:
        gate, entries = holdout.gate(), list(holdout._executor.ledger.entries())
        said = [entry for entry in entries if entry.answer["source"] == "promoted"]
        champions = [gate.status()["first_champion"], *(entry.description["challenger"] for entry in said)]
        assert [entry.description["champion"] for entry in said] == champions[:-1]
        assert gate.champion == champions[-1]
        assert {query for promoted, query, _ in told if promoted} == {entry.query for entry in said}
        assert gate.status()["promotions"] == sum(charged for *_, charged in told) == len(said) > 1
        assert holdout.status()["charged"] == len(said)


def test_a_challenge_that_was_prepared_for_another_champion_is_prepared_again(holdout, monkeypatch):
    """Somebody else is promoted between the look at the sealed rows and the transaction."""
    sealed, champion = world(0)
    gate = holdout.gate(eh.accuracy, champion=champion)
    faster, slower = (better(champion, sealed["late"], by=120, seed=seed) for seed in (0, 1))
    prepared, other = [], holdout.gate()
    make = RowEvidence.challenge

    def meanwhile(self, account, *more):
        ready = make(self, account, *more)
        prepared.append(account.champion)
        if len(prepared) == 1:
            monkeypatch.setattr(RowEvidence, "challenge", make)
            assert other.challenge(faster).promoted
            monkeypatch.setattr(RowEvidence, "challenge", meanwhile)
        return ready

    monkeypatch.setattr(RowEvidence, "challenge", meanwhile)
    verdict = gate.challenge(slower)
    assert prepared == [gate.status()["first_champion"], gate.champion]
    assert not verdict.promoted  # as good as the new champion, and no better
    assert [row["source"] for row in holdout.transcript().rows] == ["promoted", "kept"]


def test_estimators_are_about_the_population_and_arrays_about_these_rows(holdout):
    training, _ = world(1)
    rows = np.column_stack([training["x"], training["z"]])
    weak = LogisticRegression().fit(np.column_stack([0.0 * training["x"], training["z"]]), training["late"])
    gate = holdout.gate(eh.accuracy, champion=weak)
    verdict = gate.challenge(LogisticRegression().fit(rows, training["late"]))
    assert verdict.promoted
    assert verdict.about is None
    mixed = gate.challenge(world(0)[1])
    assert mixed.about == "labels drawn anew on these rows"


@pytest.mark.parametrize("metric", ["brier", partial(eh.risk, loss="log", high=5.0), partial(eh.risk, loss="absolute")])
def test_losses_are_better_when_they_are_lower(holdout, metric):
    labels = world(0)[0]["late"]
    gate = holdout.gate(metric, champion=np.full(ROWS, 0.5))
    near, far = np.where(labels == 1, 0.7, 0.3), np.where(labels == 1, 0.3, 0.7)
    assert not gate.challenge(far).promoted
    assert gate.challenge(near).promoted
    assert holdout.gate().status()["metric"] in str(gate.challenge(near))


def test_a_loss_of_ones_own_has_to_be_named_again(holdout):
    def loss(predictions, labels):
        return np.abs(predictions - labels) ** 3

    labels = world(0)[0]["late"]
    named = partial(eh.risk, loss=loss, high=1.0, name="cubic")
    gate = holdout.gate(named, champion=np.full(ROWS, 0.5))
    assert gate.challenge(np.where(labels == 1, 0.7, 0.3)).promoted
    with pytest.raises(eh.QueryRejected, match="loss function of its own"):
        holdout.gate()
    assert holdout.gate(named).champion == gate.champion
    with pytest.raises(eh.QueryRejected, match="another metric"):
        holdout.gate(eh.accuracy).challenge(labels)


def test_a_margin_is_in_the_metric_s_units_and_has_to_be_beaten(holdout):
    labels = world(0)[0]["late"]
    worst, some, best = (np.where(labels == 1, 0.5 + gain, 0.5 - gain) for gain in (0.0, 0.1, 0.5))
    gate = holdout.gate(partial(eh.risk, loss="squared", high=2.0), champion=worst, margin=0.15)
    assert not gate.challenge(some).promoted
    verdict = gate.challenge(best)
    assert (verdict.promoted, verdict.low, verdict.high) == (True, pytest.approx(0.15), 2.0)
    assert gate.status()["margin"] == pytest.approx(0.15)


def test_a_gain_is_in_the_metric_s_units_when_it_is_unsealed(holdout):
    labels = world(0)[0]["late"]
    worst, best = np.full(ROWS, 0.0), labels.astype(float)
    gate = holdout.gate(partial(eh.risk, loss="squared", high=4.0), champion=worst, margin=0.1)
    assert gate.challenge(best).promoted
    assert holdout.transcript().rows[0]["low"] == pytest.approx(0.1)
    (unsealed,) = holdout.unseal().rows
    gain = float(np.mean((worst - labels) ** 2))
    assert unsealed["sealed"] == pytest.approx(gain, abs=0.01)
    assert unsealed["sealed_low"] < gain < unsealed["sealed_high"] <= 4.0
    (row,) = holdout.transcript().rows
    assert {name: row[name] for name in ("sealed", "sealed_low", "sealed_high")} == {
        name: unsealed[name] for name in ("sealed", "sealed_low", "sealed_high")
    }


def test_the_limit_of_a_gate_is_its_own(holdout):
    _, champion = world(0)
    gate = holdout.gate(eh.accuracy, champion=champion, challenges=2)
    verdicts = [gate.challenge(lucky(champion, 0.05, seed)) for seed in range(3)]
    assert [verdict.refused for verdict in verdicts] == [False, False, True]
    assert verdicts[1].remaining["challenges"] == 0
    assert gate.status()["challenges"] == 2
    assert str(verdicts[2]).startswith("refused")
    assert "the champion stays" in verdicts[2].explain()
    with pytest.raises(eh.BudgetExhausted):
        gate.challenge(lucky(champion, 0.05, 3), strict=True)
    assert not holdout.ask("x > 0").refused  # the holdout goes on


def test_what_gates_cannot_be(holdout):
    _, champion = world(0)
    with pytest.raises(eh.QueryRejected, match="no gate named 'nix'"):
        holdout.gate(eh.accuracy, name="nix")
    for metric in (eh.mean, "auc", 7, lambda model: "x > 0"):
        with pytest.raises(eh.QueryRejected, match="metric of a gate"):
            holdout.gate(metric, champion=champion)
    for margin in (-0.1, 1.0, np.nan, "0.1"):
        with pytest.raises(eh.QueryRejected, match="margin"):
            holdout.gate(eh.accuracy, champion=champion, margin=margin)
    for limit in (0, 1.5, True):
        with pytest.raises(ValueError, match="challenges is"):
            holdout.gate(eh.accuracy, champion=champion, challenges=limit)
    for name in ("", " a", "a\n", 7):
        with pytest.raises(ValueError, match="name"):
            holdout.gate(eh.accuracy, champion=champion, name=name)
    assert holdout.status()["ledger_head"]["sequence"] == 0
    holdout.gate(eh.accuracy, champion=champion)
    with pytest.raises(eh.QueryRejected, match="another first champion"):
        holdout.gate(eh.accuracy, champion=1 - champion)
    with pytest.raises(eh.QueryRejected, match="another margin"):
        holdout.gate(eh.accuracy, champion=champion, margin=0.1)
    with pytest.raises(eh.QueryRejected, match="another limit"):
        holdout.gate(eh.accuracy, champion=champion, challenges=5)
    with pytest.raises(eh.QueryRejected, match="are no labels"):
        holdout.gate().challenge(champion + 0.5)


@pytest.mark.parametrize("mechanism", ["gaussian", "thresholdout", "ladder", "sample_splitting", "privacy_budget"])
def test_mechanisms_that_cannot_promise_it_refuse_a_gate(tmp_path, mechanism):
    with create(tmp_path, mechanism=mechanism, queries=2, surprises=None, allow_vacuous=True) as holdout:
        with pytest.raises(eh.QueryRejected, match="guess_and_check"):
            holdout.gate(eh.accuracy, champion=world(0)[1])
        assert holdout.status()["ledger_head"]["sequence"] == 0


def test_an_analyst_challenges_within_an_allotment_and_opens_nothing(holdout):
    sealed, champion = world(0)
    holdout.gate(eh.accuracy, champion=champion)
    holdout.allot("team-a", queries=3, charges=1)
    team = holdout.analyst("team-a")
    with pytest.raises(eh.QueryRejected, match="Only the steward can open a new gate"):
        team.gate(eh.accuracy, champion=champion, name="own")
    gate = team.gate()
    winner = better(champion, sealed["late"], by=120, seed=0)
    verdicts = [gate.challenge(lucky(champion, 0.05, 1)), gate.challenge(winner)]
    assert [verdict.promoted for verdict in verdicts] == [False, True]
    assert gate.challenge(better(winner, sealed["late"], by=120, seed=1)).refused  # it could cost a surprise
    assert holdout.gate().challenge(better(winner, sealed["late"], by=120, seed=1)).promoted


def test_a_certificate_lists_promotions_and_verifies_offline(holdout, tmp_path):
    sealed, champion = world(0)
    gate = holdout.gate(eh.accuracy, champion=champion, challenges=9)
    gate.challenge(lucky(champion, 0.05, 1))
    winner = better(champion, sealed["late"], by=120, seed=0)
    gate.challenge(winner)
    holdout.ask("x > 0")
    gate.challenge(better(winner, sealed["late"], by=120, seed=1))
    certificate = holdout.certificate()
    (listed,) = certificate.to_dict()["account"]["gates"]
    assert [promotion["sequence"] for promotion in listed["promotions"]] == [3, 5]
    assert listed["promotions"][-1]["challenger"] == gate.champion
    assert "every promotion that is listed" in certificate.to_html()
    for form in ("json", "html"):
        certificate.save(tmp_path / f"c.{form}")
        report = eh.verify_certificate(tmp_path / f"c.{form}", public_key=certificate.public_key)
        assert report.ok, report


def test_a_certificate_of_another_succession_is_found_out(holdout, tmp_path):
    from everhold.certificate.verification import gate_findings

    sealed, champion = world(0)
    gate = holdout.gate(eh.accuracy, champion=champion)
    gate.challenge(better(champion, sealed["late"], by=120, seed=0))
    sound = holdout.certificate().to_dict()
    assert list(gate_findings(sound)) == []
    for change in (
        lambda one: one["promotions"][0].update(over="0" * 64),
        lambda one: one["promotions"][0].update(sequence=99),
        lambda one: one.update(limit=0),
        lambda one: one["promotions"].append(one["promotions"][0]),
    ):
        altered = json.loads(json.dumps(sound))
        change(altered["account"]["gates"][0])
        assert list(gate_findings(altered))


def test_the_champion_s_file_is_private_and_found_out_if_altered(tmp_path):
    _, champion = world(0)
    with create(tmp_path) as holdout:
        holdout.gate(eh.accuracy, champion=champion)
    (file,) = tmp_path.glob("study.rows/*/champion-*")
    assert file.stat().st_mode & 0o077 == 0
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(bytes(content))
    with eh.Holdout.open(f"sqlite:///{tmp_path}/study.db", "study") as holdout:
        with pytest.raises(eh.IntegrityError, match="was altered"):
            holdout.gate().challenge(lucky(champion, 0.05, 1))
        assert holdout.status()["queries_asked"] == 0


def test_an_unsealed_study_tells_one_sided_limits_of_gains_and_no_gate_goes_on(holdout):
    sealed, champion = world(0)
    gate = holdout.gate(eh.accuracy, champion=champion)
    winner = better(champion, sealed["late"], by=120, seed=0)
    gate.challenge(lucky(champion, 0.05, 1))
    gate.challenge(winner)
    rows = holdout.unseal().rows
    assert [row["sealed_high"] for row in rows] == [1.0, 1.0]
    assert rows[1]["sealed"] == pytest.approx(120 / ROWS)  # gains, as the margins and limits beside them
    assert rows[0]["sealed_low"] < 0.0 < rows[1]["sealed_low"] < rows[1]["sealed"]
    numbers = ("sealed", "sealed_low", "sealed_high")
    told = [{name: row[name] for name in numbers} for row in holdout.transcript().rows]
    assert told == [{name: row[name] for name in numbers} for row in rows]
    assert gate.challenge(winner).promoted
    assert gate.status()["remaining"] == {"queries": 0, "surprises": 0}
    with pytest.raises(eh.QueryRejected, match="unsealed"):
        gate.challenge(lucky(champion, 0.05, 2))
    with pytest.raises(eh.QueryRejected, match="unsealed"):
        holdout.gate(eh.accuracy, champion=champion, name="late")
    assert not list(holdout.certificate().to_dict()["account"]["gates"][1:])


def test_unsealed_limits_of_gains_are_at_the_whole_level_of_their_node(holdout):
    """As recorded: the lower limit with all of the level on its side, and the stakes for that."""
    training, (sealed, champion) = world(1)[0], world(0)
    rows = np.column_stack([training["x"], training["z"]])
    weak = LogisticRegression().fit(np.column_stack([0.0 * training["x"], training["z"]]), training["late"])
    by_position, by_models = (
        holdout.gate(eh.accuracy, champion=champion),
        holdout.gate(eh.accuracy, champion=weak, name="models"),
    )
    by_position.challenge(better(champion, sealed["late"], by=30, seed=0))
    by_models.challenge(LogisticRegression().fit(rows, training["late"]))
    entries = [e for e in holdout._executor.ledger.entries() if e.answer["source"] in ("kept", "promoted")]
    first, second = (entry.answer["node"] for entry in entries)
    assert {**first, "nats": None} == {"by": "sign_test", "nats": None, "one_sided": True}
    assert (second["by"], second["one_sided"], set(second)) == (
        "hedged_betting", True, {"by", "nats", "one_sided", "stake_low", "stake_high"},
    )  # fmt: skip
    mechanism = holdout._executor.mechanism
    assert [first["nats"], second["nats"]] == pytest.approx(mechanism.nats([1, 2], [0, 1], [0.0, 0.0]).tolist())
    told = holdout.unseal().rows
    limit = SignTest(rows=ROWS, training=ROWS, differing=30).interval(0.5 + 15 / ROWS, first["nats"] - np.log(2.0))[0]
    assert told[0]["sealed_low"] == pytest.approx(2.0 * (limit - mechanism.rounding) - 1.0, abs=1e-12)
    assert [row["sealed_high"] for row in told] == [1.0, 1.0]


def test_a_gate_that_is_refused_leaves_no_champion_behind(holdout, monkeypatch):
    _, champion = world(0)
    gate = holdout.gate(eh.accuracy, champion=champion)

    def kept():
        return [file.name for file in gate._folder.iterdir() if file.name.startswith("champion-")]

    before = kept()
    assert before == [f"champion-{gate.champion}"]
    holdout.ask("x > 0")
    with pytest.raises(eh.QueryRejected, match="another first champion"):
        holdout.gate(eh.accuracy, champion=1 - champion)
    calls = []

    def somebody_else_unseals(ledger, drafts):
        monkeypatch.undo()
        calls.append(holdout.unseal())
        return ledger.transaction(drafts)

    monkeypatch.setattr(type(holdout._executor.ledger), "transaction", somebody_else_unseals)
    with pytest.raises(eh.QueryRejected, match="unsealed"):  # between the look at the ledger and the transaction
        holdout.gate(eh.accuracy, champion=1 - champion, name="late")
    assert calls
    with pytest.raises(eh.QueryRejected, match="unsealed"):
        holdout.gate(eh.accuracy, champion=1 - champion, name="later")
    assert kept() == before


def files_of(gate):
    return sorted(file.name for file in gate._folder.iterdir() if "champion" in file.name or ".new" in file.name)


@pytest.mark.parametrize("text", [False, True])
def test_predictions_as_objects_are_promoted_like_all_others(tmp_path, text):
    """Were they refused only where they are promoted, a verdict would be told that nobody pays for."""
    data, champion = world(0)
    names = np.array(["no", "yes"], dtype=object)
    labels = names[data["late"]] if text else data["late"]
    with eh.Holdout.create(
        f"sqlite:///{tmp_path}/study.db", "study", holdout={**data, "late": labels}, label="late", queries=1_000,
        mechanism="guess_and_check", rows=eh.Rows(features="public", classes=["no", "yes"] if text else [0, 1]),
    ) as made:  # fmt: skip
        first, real = (names[each] if text else each.astype(object) for each in (champion, data["late"]))
        gate = made.gate(eh.accuracy, champion=first)
        assert gate.challenge(real).promoted
        assert files_of(gate) == sorted(
            f"champion-{digest}" for digest in (gate.champion, gate.status()["first_champion"])
        )


def test_a_folder_that_cannot_be_written_tells_nothing(holdout, monkeypatch):
    data, champion = world(0)
    gate = holdout.gate(eh.accuracy, champion=champion)
    before = holdout.status()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("everhold.sealing.sealed_files.create_private", full)
    said = []
    for challenger in (data["late"], lucky(champion, 0.2, 1)):
        with pytest.raises(eh.EverholdError, match="cannot be written") as caught:
            gate.challenge(challenger)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert holdout.status() == before


def test_a_challenger_that_is_kept_leaves_no_file(holdout):
    _, champion = world(0)
    gate = holdout.gate(eh.accuracy, champion=champion)
    before = files_of(gate)
    assert not gate.challenge(lucky(champion, 0.2, 1)).promoted
    assert files_of(gate) == before


def test_a_challenge_is_never_silent(holdout):
    _, champion = world(0)
    gate = holdout.gate(eh.accuracy, champion=champion)
    version, head = gate._evidence.version(lucky(champion, 0.05, 1)), holdout._executor.ledger.head()
    _, ready = gate._evidence.challenge(gate._evidence.gate_at(head), version, head)
    with pytest.raises(eh.QueryRejected, match="A challenge cannot be silent"):
        ready.silently()
    assert holdout.status()["queries_asked"] == 0


def test_slack_takes_no_gate_away_and_no_sharpness(tmp_path):
    training, _ = world(1)
    rows = np.column_stack([training["x"], training["z"]])
    weak = LogisticRegression().fit(np.column_stack([0.0 * training["x"], training["z"]]), training["late"])
    with create(tmp_path, slack=0.3) as holdout:
        gate = holdout.gate(eh.accuracy, champion=weak)
        assert gate.challenge(LogisticRegression().fit(rows, training["late"])).promoted
        (challenge,) = (entry for entry in holdout._executor.ledger.entries() if entry.answer["source"] == "promoted")
        # a challenge tells no interval, so none has to be foreseen
        assert challenge.answer["node"]["by"] == "hedged_betting"


def test_the_transcript_and_the_ledger_show_challenges(holdout):
    _, champion = world(0)
    gate = holdout.gate(eh.accuracy, champion=champion)
    gate.challenge(lucky(champion, 0.05, 1))
    (row,) = holdout.transcript().rows
    assert (row["source"], row["value"], row["charged"]) == ("kept", None, 0)
    assert "against champion" in row["asked"]
    assert Accounts.from_state(holdout._executor.ledger.head().state).of(Gates).by_name["gate"].challenges == 1
    assert holdout.status()["gates"][0]["champion"] == gate.champion


def test_challenges_beyond_the_plan_go_on_as_queries_do_and_the_gate_says_what_they_see(tmp_path):
    """The plan is no limit to either; what is proved stays proved, and the least gain that is seen grows."""
    rng, truth = np.random.default_rng(5), np.random.default_rng(6).integers(0, 2, ROWS)
    rows = {"x": rng.normal(size=ROWS), "late": truth}
    with eh.Holdout.create(
        f"sqlite:///{tmp_path}/short.db", "short", holdout=rows, label="late", rows=eh.Rows(features="public"),
        mechanism="guess_and_check", queries=40,
    ) as holdout:  # fmt: skip
        gate, champion = holdout.gate("accuracy", champion=np.where(rng.random(ROWS) < 0.7, truth, 1 - truth)), None
        first = gate.status()
        assert (first["plan"], first["sees"]["disagreement"]) == ({"queries": 40, "beyond": 0}, 0.05)
        for seed in range(60):
            champion = np.random.default_rng(seed).integers(0, 2, ROWS)
            assert not gate.challenge(champion).refused
        later = gate.status()
        assert later["plan"] == {"queries": 40, "beyond": 20}
        assert later["sees"]["gain"] > first["sees"]["gain"] > 0.0
        assert not holdout.ask("late = 1", guess=float(np.mean(truth))).refused  # neither does ask end with the plan
        assert gate.challenge(truth).promoted
        limited = holdout.gate("accuracy", champion=np.zeros(ROWS), challenges=1, name="limited")
        limited.challenge(np.ones(ROWS))
        with pytest.raises(eh.BudgetExhausted, match="'limited' has answered all 1 challenges"):
            limited.challenge(1 - truth, strict=True)


def test_what_a_gate_says_that_it_sees_is_what_it_promotes(tmp_path):
    """One win fewer than the gain that the status states is kept, and that many is promoted."""
    truth = np.random.default_rng(6).integers(0, 2, ROWS)
    rows = {"x": np.arange(ROWS), "late": truth}
    with eh.Holdout.create(
        f"sqlite:///{tmp_path}/seen.db", "seen", holdout=rows, label="late", rows=eh.Rows(features="public"),
        mechanism="guess_and_check", queries=40,
    ) as holdout:  # fmt: skip
        first = truth.copy()
        first[: ROWS // 2] = 1 - truth[: ROWS // 2]
        gate, differing = holdout.gate("accuracy", champion=first), ROWS // 20
        wins = round((differing + gate.status()["sees"]["gain"] * ROWS) / 2.0)

        def challenger(won):
            """Right where the champion was wrong on so many rows, and wrong where it was right on the others."""
            made = first.copy()
            made[:won] = truth[:won]
            made[ROWS - (differing - won) :] = 1 - truth[ROWS - (differing - won) :]
            return made

        assert gate.challenge(challenger(wins - 1)).promoted is False
        wins = round((differing + gate.status()["sees"]["gain"] * ROWS) / 2.0)
        assert gate.challenge(challenger(wins)).promoted is True
