"""Databases that are set back or copied: noise cannot be averaged away, and what was lost counts as spent."""

import shutil
import subprocess
import sys
from statistics import fmean

import pytest
from holdout_samples import ROWS, copied, create, guess_and_check, rows

import everhold.asking.query_executor
from everhold import GaussianMechanism, Holdout, IntegrityError, Ladder, verify_certificate
from everhold.errors import Unavailable
from everhold.mechanisms import State
from everhold.mechanisms.labels import DEAREST, failing_rows_cost, in_millionths
from everhold.randomness import SecureNoise

QUERY = "delay > 15"
NOISE = GaussianMechanism(rows=ROWS, queries=30, scale=0.02)
RELEASES = {
    "gaussian": NOISE,
    "privacy_budget": "privacy_budget",
    "ladder": Ladder(rows=ROWS, queries=30, grid=20),
}


def create_thresholdout(folder):
    return create(folder, holdout=rows(0, 50_000), mechanism="thresholdout", queries=30, surprises=4)


def saved(folder, name):
    """A copy of the database alone, as a backup makes it; nobody has it open."""
    shutil.copy(folder / "study.db", folder / name)


def restore(folder, name):
    for ending in ("-wal", "-shm"):
        (folder / f"study.db{ending}").unlink(missing_ok=True)
    shutil.copy(folder / name, folder / "study.db")


def opened(folder):
    return Holdout.open(folder / "study.db", "study")


def head_file(folder):
    (found,) = folder.glob("study.rows/*/ledger.head")
    return found


@pytest.fixture
def set_back(tmp_path):
    """A study whose database was set back behind two answers."""
    with copied(tmp_path, mechanism=NOISE) as study:
        first = study.ask("delay > 0").value
    saved(tmp_path, "old.db")
    with opened(tmp_path) as study:
        newest = [study.ask(text).value for text in (QUERY, "delay > 30")]
    saved(tmp_path, "newest.db")
    restore(tmp_path, "old.db")
    return tmp_path, first, newest


def answers_of_one_state(executor, times):
    """The same query asked on the same state again and again, by the very steps of the ledger's transaction."""
    state, ready = executor.state(), executor.compiler.batch([QUERY], None)
    seen, fingerprints = ready.evaluate(executor.sealed, [0]), [ready.asked[0].fingerprint]

    def step():
        noise = everhold.asking.query_executor.noise_for(executor.record, state, fingerprints, key=executor.key)
        return ready.answer(state, seen, [0], noise)

    return [step()[1][0].answer["value"] for _ in range(times)]


def test_the_mean_of_ten_thousand_restores_is_the_first_answer(tmp_path):
    with copied(tmp_path, mechanism=NOISE, training=None) as study:
        first = study.ask("delay > 0").value
        values = answers_of_one_state(study._executor, 10_000)
    assert set(values) == {values[0]}
    assert fmean(values) == pytest.approx(values[0], abs=1e-12)
    assert values[0] != first


def test_noise_that_is_drawn_anew_is_averaged_away_by_restores(tmp_path, monkeypatch):
    monkeypatch.setattr(everhold.asking.query_executor, "noise_for", lambda *_, **__: SecureNoise())
    with copied(tmp_path, mechanism=NOISE, training=None) as study:
        values = answers_of_one_state(study._executor, 10_000)
        asked = study._executor.compiler.prepare([QUERY], None)[0].bound
        truth = study._executor.sealed.totals([asked])[0, 0] / NOISE.steps
    assert len(set(values)) > 9_000
    assert abs(fmean(values) - truth) < 5 * NOISE.scale / 100  # the noise of one answer is a hundred times as large


@pytest.mark.parametrize("mechanism", ["gaussian", "thresholdout", "privacy_budget", "ladder"])
def test_the_same_query_on_a_full_copy_gets_the_same_answer(tmp_path, mechanism):
    if mechanism == "thresholdout":
        create_thresholdout(tmp_path).close()
    else:
        copied(tmp_path, mechanism=RELEASES[mechanism], queries=30).close()
    saved(tmp_path, "old.db")
    before, values = head_file(tmp_path).read_bytes(), []
    for _ in range(5):
        with opened(tmp_path) as study:
            values.append(study.ask(QUERY, guess=0.9 if mechanism == "thresholdout" else None).value)
        restore(tmp_path, "old.db")
        head_file(tmp_path).write_bytes(before)
    assert len(set(values)) == 1


def test_different_queries_and_states_get_different_noise(tmp_path):
    with copied(tmp_path, mechanism=NOISE, training=None) as study:
        same_rows = ["delay > 15", "(delay > 15) and (delay > 14)", "delay >= 15"]
        assert len({study.ask(text).value for text in same_rows}) == len(same_rows)


@pytest.mark.parametrize(
    "use",
    [
        lambda study: study.ask("delay > 100"),
        lambda study: study.ask("delay > 0"),  # a stored answer
        lambda study: study.ask_many(["delay > 0", "delay > 100"]),
        lambda study: study.quote("delay > 100"),
        lambda study: study.status(),
        lambda study: study.remaining,
        lambda study: study.transcript(),
        lambda study: study.spent(),
        lambda study: study.certificate(),
        lambda study: study.allot("team-a", queries=3),
    ],
)
def test_an_open_holdout_notices_that_its_ledger_was_set_back(tmp_path, use):
    with copied(tmp_path, mechanism=NOISE) as study:
        study.ask("delay > 0")
        study.ask(QUERY)
        reached = study._executor.ledger.head_file.find()
        newer = type(reached)(0, reached.sequence + 1, "ab" * 32, reached.asked + 1, reached.charged + 1)
        study._executor.ledger.head_file.replace(newer)
        with pytest.raises(IntegrityError, match="set back"):
            use(study)


def moved(folder, to):
    """The database with all that belongs to it, under another name."""
    for found in folder.glob("study.db*"):
        found.rename(folder / found.name.replace("study.db", to))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows moves no file that is open")
def test_a_file_that_takes_the_place_of_the_open_one_is_asked_and_not_the_one_that_is_gone(tmp_path):
    copied(tmp_path, mechanism=NOISE).close()
    saved(tmp_path, "old.db")
    with opened(tmp_path) as study:
        newest = study.ask(QUERY).value
        moved(tmp_path, "gone.db")
        with pytest.raises(Unavailable, match=r"'study\.db' is missing"):
            study.ask(QUERY)
        assert not (tmp_path / "study.db").exists()  # nor was an empty one made
        shutil.copy(tmp_path / "old.db", tmp_path / "study.db")
        for _ in range(2):
            with pytest.raises(IntegrityError, match="set back"):
                study.ask("delay > 30")
        (tmp_path / "study.db").unlink()
        moved_back = {"gone.db": "study.db", "gone.db-wal": "study.db-wal", "gone.db-shm": "study.db-shm"}
        for old, new in moved_back.items():
            if (tmp_path / old).exists():
                (tmp_path / old).rename(tmp_path / new)
        assert study.ask(QUERY).value == newest


def test_an_older_database_is_refused_and_says_what_to_do(set_back):
    folder, _, _ = set_back
    with pytest.raises(IntegrityError, match=r"set back.*Restore the newest backup, or run 'everhold ledger recover'"):
        opened(folder)
    restore(folder, "newest.db")
    with opened(folder) as study:
        assert study.ask(QUERY).repeated


def test_a_recovery_counts_the_lost_answers_as_spent(set_back):
    folder, first, newest = set_back
    with Holdout.open(folder / "study.db", "study", recover=True) as study:
        assert study.status()["lost"] == {"recoveries": 1, "queries": 2, "charges": 2}
        assert study.remaining == {"queries": 27}
        again = study.ask(QUERY)
        assert (again.repeated, again.value == newest[0], study.ask("delay > 0").value) == (False, False, first)
        assert [row["asked"] for row in study.transcript().to_rows()] == ["mean of delay > 0", f"mean of {QUERY}"]
        certificate = study.certificate()
        certificate.save(folder / "c.html")
    assert verify_certificate(folder / "c.html").findings == ()
    assert "answered and lost" in {row["item"] for row in certificate.to_rows()}
    restore(folder, "newest.db")  # what was lost cannot come back: it knows nothing of what was asked since
    with pytest.raises(IntegrityError, match="set back"):
        opened(folder)


def test_a_second_recovery_goes_beyond_the_first(set_back):
    folder, _, _ = set_back
    with Holdout.open(folder / "study.db", "study", recover=True) as study:
        study.ask(QUERY)
    restore(folder, "old.db")
    with Holdout.open(folder / "study.db", "study", recover=True) as study:
        assert study.status()["lost"] == {"recoveries": 1, "queries": 3, "charges": 3}
        assert study.remaining == {"queries": 26}


def test_recovering_what_was_not_lost_changes_nothing(tmp_path):
    with copied(tmp_path, mechanism=NOISE) as study:
        study.ask(QUERY)
    with Holdout.open(tmp_path / "study.db", "study", recover=True) as study:
        assert "lost" not in study.status()
        assert study._executor.ledger.head().sequence == 1


def test_a_missing_head_file_is_refused_and_a_recovery_spends_all_that_is_left(tmp_path):
    with copied(tmp_path, mechanism=NOISE) as study:
        first = study.ask(QUERY).value
    head_file(tmp_path).unlink()
    with pytest.raises(IntegrityError, match=r"ledger\.head.*is missing or was altered"):
        opened(tmp_path)
    with Holdout.open(tmp_path / "study.db", "study", recover=True) as study:
        assert study.remaining == {"queries": 0}
        assert study.ask(QUERY).value == first
        assert study.ask("delay > 30").source == "refused"


def test_a_head_file_of_another_key_or_altered_is_as_good_as_none(tmp_path):
    with copied(tmp_path, mechanism=NOISE) as study:
        study.ask(QUERY)
    content = head_file(tmp_path).read_bytes()
    head_file(tmp_path).write_bytes(content.replace(b'"charged":', b'"charged":1'))
    with pytest.raises(IntegrityError):
        opened(tmp_path)


def test_a_head_write_that_was_cut_short_is_no_fault(tmp_path):
    with copied(tmp_path, mechanism=NOISE) as study:
        study.ask(QUERY)
        study.ask("delay > 0")
    content = bytearray(head_file(tmp_path).read_bytes())
    newest = content.find(b'"sequence":2') // 512
    content[512 * newest + 100 : 512 * newest + 300] = bytes(200)
    head_file(tmp_path).write_bytes(content)
    with opened(tmp_path) as study:
        assert study.ask("delay > 0").repeated
    assert b'"sequence":2' in head_file(tmp_path).read_bytes()  # it follows the database


def test_two_ledgers_that_went_different_ways_are_not_mixed_up(tmp_path):
    with copied(tmp_path, mechanism=NOISE) as study:
        pass
    saved(tmp_path, "old.db")
    before = head_file(tmp_path).read_bytes()
    with opened(tmp_path) as study:
        study.ask(QUERY)
    here = head_file(tmp_path).read_bytes()
    restore(tmp_path, "old.db")
    head_file(tmp_path).write_bytes(before)
    with opened(tmp_path) as study:
        study.ask("delay > 30")
        study.ask("delay > 31")
    head_file(tmp_path).write_bytes(here)
    for use in (opened, lambda folder: Holdout.open(folder / "study.db", "study", recover=True)):
        with pytest.raises(IntegrityError, match="The ledger diverged"):
            use(tmp_path)


def test_a_noisy_threshold_never_comes_into_force_again(tmp_path):
    with create_thresholdout(tmp_path) as study:
        study.ask("delay > 0")
        threshold = study._executor.state().carried_noise
    saved(tmp_path, "old.db")
    with opened(tmp_path) as study:
        assert study.ask(QUERY, guess=0.9).charged == 1
    restore(tmp_path, "old.db")
    with Holdout.open(tmp_path / "study.db", "study", recover=True) as study:
        assert study.remaining == {"queries": 28, "surprises": 2}  # one was lost, and the epoch in progress has ended
        assert study._executor.state().carried_noise != threshold


def test_guess_and_check_goes_on_and_what_a_lost_surprise_told_counts_as_the_dearest_label(tmp_path):
    with copied(tmp_path, mechanism=guess_and_check(tolerance=0.25)) as study:
        study.ask("delay > 0")
    saved(tmp_path, "old.db")
    with opened(tmp_path) as study:
        study.ask(QUERY, guess=0.99)
        there, price = study._executor.state(), study.quote()
    restore(tmp_path, "old.db")
    with Holdout.open(tmp_path / "study.db", "study", recover=True) as study:
        state = study._executor.state()
        assert (state.asked, state.charged) == (there.asked, there.charged) == (2, 1)
        dearest = 2 * in_millionths(DEAREST) + failing_rows_cost(told=True)  # of a number and a share of failing rows
        assert state.labels == dearest > there.labels == study.mechanism.cells.cost
        assert study.quote().radius > price.radius
    head_file(tmp_path).unlink()
    with pytest.raises(IntegrityError, match="cannot be recovered"):
        Holdout.open(tmp_path / "study.db", "study", recover=True)


def test_a_part_of_sample_splitting_is_used_once(tmp_path):
    with copied(tmp_path, mechanism="sample_splitting", queries=4):
        pass
    saved(tmp_path, "old.db")
    with opened(tmp_path) as study:
        study.ask(QUERY)
    restore(tmp_path, "old.db")
    with Holdout.open(tmp_path / "study.db", "study", recover=True) as study:
        assert study._executor.state() == State(1, 1)


def test_a_leaderboard_that_lost_its_best_cannot_go_on(tmp_path):
    with copied(tmp_path, mechanism=RELEASES["ladder"]) as study:
        study.ask("delay > 15")
    saved(tmp_path, "old.db")
    with opened(tmp_path) as study:
        assert study.ask("delay > 20").charged in (0, 1)
        assert study.ask("delay > 70").charged == 1
    restore(tmp_path, "old.db")
    with pytest.raises(IntegrityError, match=r"a lost submission was a new best score"):
        Holdout.open(tmp_path / "study.db", "study", recover=True)


def test_lost_spending_of_analysts_cannot_be_spent_twice(tmp_path):
    with copied(tmp_path, mechanism=NOISE) as study:
        study.allot("team-a", queries=5)
        study.analyst("team-a").ask("delay > 0")
    saved(tmp_path, "old.db")
    with opened(tmp_path) as study:
        study.analyst("team-a").ask(QUERY)
    restore(tmp_path, "old.db")
    with Holdout.open(tmp_path / "study.db", "study", recover=True) as study:
        assert study.allotments()["team-a"].to_dict() | {"analyst": 0} == {
            "analyst": 0, "asked": 1, "queries": 1, "charged": 1, "charges": 1,
        }  # fmt: skip
        assert study.analyst("team-a").ask("delay > 30").source == "refused"
        study.allot("team-a", queries=5)
        assert study.analyst("team-a").ask("delay > 30").charged == 1
        assert verify_findings(study) == ()


def verify_findings(study):
    from everhold.ledger import verify

    executor = study._executor
    return verify(
        executor.store, executor.record.name, seal_key=executor.key.seal_key, head_file=executor.ledger.head_file
    ).findings


def test_verification_finds_a_database_that_was_set_back(set_back):
    from everhold.ledger import LedgerStore, verify
    from everhold.ledger.head_file import HeadFile
    from everhold.sealing.storage import StewardKey

    folder, _, _ = set_back
    with LedgerStore.open(f"sqlite:///{folder}/study.db") as store:
        record = store.record("study")
        place = head_file(folder).parent
        key = StewardKey.load(place / "steward.key", public_key=record.configuration["public_key"])
        known = HeadFile.of(place, holdout=record.id, seal_key=key.seal_key)
        report = verify(store, "study", seal_key=key.seal_key, head_file=known)
        assert [finding.what[:23] for finding in report.findings] == ["the ledger was set back"]
        assert verify(store, "study", seal_key=key.seal_key).ok


def test_the_shell_recovers(set_back):
    folder, _, _ = set_back

    def run(*command):
        program = [sys.executable, "-c", "from everhold.cli import main; main()"]
        return subprocess.run([*program, *command], capture_output=True, text=True, cwd=folder, check=False)

    assert run("ledger", "verify", "study.db", "study").returncode == 7
    assert run("ask", "study.db", "study", "--mean", QUERY).returncode == 7
    recovered = run("ledger", "recover", "study.db", "study", "--format", "json")
    assert (recovered.returncode, '"queries": 2' in recovered.stdout) == (0, True)
    assert run("ledger", "verify", "study.db", "study").returncode == 0
