"""The commands `dependence fit`, `describe`, `quilts` and `plan --model`."""

import csv
import io
import json

import numpy as np
import pytest

from everhold.dependence import Groups, dependence_from_dict
from everhold.dependence.series.markov_chain import MarkovChain
from everhold.planning import plan
from everhold_lab.commands.quilts import EveryRow
from everhold_lab.releases.markov_quilt import MarkovQuiltMechanism

CHAIN = {"kind": "markov_chain", "transition": [[0.8, 0.2], [0.3, 0.7]], "initial": "stationary"}
QUILTS = ("dependence", "quilts", "--rows", "100", "--epsilon", "1")


@pytest.fixture
def chain_file(tmp_path):
    file = tmp_path / "chain.json"
    file.write_text(json.dumps(CHAIN))
    return str(file)


@pytest.fixture
def weather(tmp_path):
    """Days of a chain of two states, shuffled, and a temperature that drifts back to its mean."""
    rng = np.random.default_rng(1)
    states, warm = [0], [0.0]
    for _ in range(2999):
        states.append(int(rng.random() < (0.2 if states[-1] == 0 else 0.7)))
        warm.append(0.5 * warm[-1] + rng.normal())
    lines = [f"{day},{('dry', 'wet')[states[day]]},{warm[day]}" for day in rng.permutation(3000)]
    file = tmp_path / "train.csv"
    file.write_text("\n".join(["day,weather,warmth", *lines]) + "\n")
    return file


def test_quilts_as_json_are_those_of_the_mechanism(everhold, chain_file):
    document = json.loads(everhold(*QUILTS, "--model", chain_file, "--format", "json").stdout)
    mechanism = MarkovQuiltMechanism(MarkovChain(CHAIN["transition"]), rows=100, epsilon=1.0)
    assert document == mechanism.to_dict()
    assert list(document) == ["scale", "rows"]
    assert list(document["rows"][0]) == ["row", "nearby", "quilt", "remote", "influence", "scale"]


def test_quilts_from_a_law_of_its_own(everhold, tmp_path):
    file = tmp_path / "chain.json"
    file.write_text(json.dumps({**CHAIN, "initial": [1.0, 0.0]}))
    document = json.loads(everhold(*QUILTS, "--model", str(file), "--format", "json").stdout)
    model = MarkovChain(CHAIN["transition"], initial=[1.0, 0.0])
    assert document["scale"] == MarkovQuiltMechanism(model, rows=100, epsilon=1.0).scale


def test_quilts_as_table_and_csv(everhold, chain_file):
    shown = everhold(*QUILTS, "--model", chain_file)
    assert "noise scale 10.12" in shown.stderr
    assert "46; 54" in shown.stdout
    lines = list(csv.DictReader(io.StringIO(everhold(*QUILTS, "--model", chain_file, "--format", "csv").stdout)))
    assert [json.loads(line["quilt"]) for line in lines][50] == [46, 54]
    assert len(lines) == 100


def shown_rows(table):
    """Row, scale and rows alike of each line of a table."""
    lines = [line.split() for line in table.splitlines()[2:]]
    return [(int(line[0].replace(",", "")), float(line[-2]), int(line[-1].replace(",", ""))) for line in lines]


def test_a_table_of_many_rows_is_a_short_list(everhold, chain_file):
    shown = everhold("dependence", "quilts", "--rows", "20000", "--epsilon", "1", "--model", chain_file)
    lines = shown_rows(shown.stdout)
    assert [line[0] for line in lines] == [*range(51), *range(19_950, 20_000)]
    assert (50, 10.12, 19_900) in lines
    assert "101 of 20,000 rows are shown" in shown.stderr


def test_a_short_list_of_many_shapes_has_200_lines_and_the_row_with_most_noise(everhold, tmp_path):
    file = tmp_path / "sticky.json"
    file.write_text(json.dumps({**CHAIN, "transition": [[0.99, 0.01], [0.03, 0.97]]}))
    shown = everhold("dependence", "quilts", "--rows", "3000", "--epsilon", "0.5", "--model", str(file))
    lines = shown_rows(shown.stdout)
    assert len(lines) == 200
    mechanism = MarkovQuiltMechanism(dependence_from_dict(json.loads(file.read_text())), rows=3000, epsilon=0.5)
    assert max(scale for _, scale, _ in lines) == float(f"{mechanism.scale:.4g}")
    hidden = int(shown.stderr.split("alike. ")[1].split()[0].replace(",", ""))
    assert sum(alike for *_, alike in lines) + hidden == 3000


def test_lines_are_those_of_the_quilts():
    mechanism = MarkovQuiltMechanism(MarkovChain(CHAIN["transition"]), rows=30, epsilon=1.0)
    every = EveryRow(mechanism)
    assert list(every) == mechanism.to_rows() == every[:]
    for line, active in zip(every, mechanism.quilts, strict=True):
        assert (line["nearby"], tuple(line["quilt"])) == (len(active.quilt.nearby), active.quilt.quilt)


def test_the_approximate_search_asks_for_more_noise(everhold, chain_file):
    shown = [everhold(*QUILTS, "--model", chain_file, "--search", search).stderr for search in ("exact", "approximate")]
    exact, bound = (float(text.split()[2]) for text in shown)
    assert exact < bound


@pytest.mark.parametrize("ending", ["svg", "html"])
@pytest.mark.parametrize(
    "command",
    [
        (*QUILTS, "--row", "3"),
        ("dependence", "describe"),
        ("dependence", "describe", "--rows", "20000", "--queries", "100"),
    ],
)
def test_pictures_are_saved(everhold, chain_file, tmp_path, monkeypatch, command, ending):
    pytest.importorskip("vl_convert")
    monkeypatch.setattr("everhold.charts.dependence._CORRELATIONS", (0.0, 0.3))
    everhold(*command, "--model", chain_file, "--chart", str(tmp_path / f"drawn.{ending}"))
    assert "<svg" in (tmp_path / f"drawn.{ending}").read_text()


def test_describe_says_what_is_assumed_and_what_it_costs(everhold, chain_file):
    model = MarkovChain(CHAIN["transition"])
    document = json.loads(
        everhold("dependence", "describe", "--model", chain_file, "--rows", "5000", "--format", "json").stdout
    )
    assert document["assumption"] == model.describe()
    assert document["spectral_gap"] == pytest.approx(0.5)
    line = document["sizes"][0]
    assert line["effective_rows"] == model.concentration(5000)
    assert line["leakage"] > 0.01
    assert (line["loss_if_independent"], line["delta"]) == (0.01, 1e-6)
    assert line["given_up"] == 0.0
    assert set(document["meaning"]) <= set(line)
    csv_text = everhold("dependence", "describe", "--model", chain_file, "--rows", "5000", "--format", "csv").stdout
    assert csv_text.splitlines()[0] == "rows,effective_rows,share,loss_if_independent,delta,leakage,given_up"
    assert [float(told) for told in csv_text.splitlines()[1].split(",")[-2:]] == [line["leakage"], 0.0]
    shown = everhold("dependence", "describe", "--model", chain_file)
    assert "spectral gap of the matrix: 0.5" in shown.stderr
    assert "100,000" in shown.stdout


def test_describe_of_groups_has_no_gap(everhold, tmp_path):
    file = tmp_path / "groups.json"
    file.write_text(json.dumps(Groups([5]).to_dict()))
    document = json.loads(everhold("dependence", "describe", "--model", str(file), "--format", "json").stdout)
    assert document["spectral_gap"] is None
    assert document["sizes"][0]["leakage"] == pytest.approx(0.05, rel=1e-3)
    everhold("dependence", "describe", "--model", str(file), "--chart", str(tmp_path / "a.svg"))
    assert "Which rows belong together" in (tmp_path / "a.svg").read_text()


def test_a_fitted_chain_goes_into_the_other_commands(everhold, weather, tmp_path):
    file = str(tmp_path / "fitted.json")
    columns = ("--order-by", "day", "--state", "weather", "--gap", "7", "--output", file)
    shown = everhold("dependence", "fit", str(weather), "--kind", "markov_chain", *columns)
    assert "assumed from now on" in shown.stderr
    model = dependence_from_dict(json.loads((tmp_path / "fitted.json").read_text()))
    assert (model.gap, model.states) == (7, ("dry", "wet"))
    assert np.allclose(model.transition, CHAIN["transition"], atol=0.15)
    assert everhold("dependence", "describe", "--model", file).stdout
    assert "noise scale" in everhold(*QUILTS, "--model", file).stderr


def test_a_fitted_series_of_numbers(everhold, weather):
    columns = ("--kind", "gaussian_ar1", "--order-by", "day", "--state", "warmth", "--format", "json")
    fitted = json.loads(everhold("dependence", "fit", str(weather), *columns).stdout)
    assert fitted["kind"] == "gaussian_ar1"
    assert 0.45 < fitted["correlation"] < 0.9


def test_missing_values_and_columns_are_noticed(everhold, weather):
    weather.write_text(weather.read_text() + "3000,,\n")
    chosen = ("dependence", "fit", str(weather), "--kind", "markov_chain", "--order-by", "day")
    for state in ("weather", "warmth"):
        assert f"no value in column '{state}'" in everhold(*chosen, "--state", state, code=9).stderr
    refused = everhold(*chosen, "--state", "rain", code=9)
    assert "no column 'rain'. Name one of 'day', 'weather', 'warmth'" in refused.stderr


def test_a_confidence_that_makes_no_sense_is_wrong_usage(everhold, weather):
    chosen = ("dependence", "fit", str(weather), "--kind", "markov_chain", "--order-by", "day", "--state", "weather")
    for confidence in ("2", "1", "0", "nan"):
        assert "--confidence is" in everhold(*chosen, "--confidence", confidence, code=2).stderr


@pytest.mark.parametrize(
    ("settings", "given_up"),
    [
        ({"gap": 0, "lengths": [[3, 400]]}, 1.0),
        ({"gap": 30, "lengths": [[3, 400]]}, 400 * 0.5 * 0.8**31),
        ({"gap": 30, "groups": "patient"}, None),
        ({"miss": 0.01}, None),
    ],
)
def test_describe_says_what_promises_give_up_and_whose_rows_nobody_may_see(everhold, tmp_path, settings, given_up):
    file = tmp_path / "model.json"
    file.write_text(json.dumps({"kind": "markov_chain", "transition": [[0.9, 0.1], [0.1, 0.9]], **settings}))
    chosen = ("dependence", "describe", "--model", str(file), "--rows", "1200", "--format", "json")
    document = json.loads(everhold(*chosen).stdout)
    found = document["sizes"][0]["given_up"]
    assert found == (None if given_up is None else pytest.approx(given_up))
    assert ("nobody who asks has seen" in document["assumption"]) == ("gap" in settings)


def test_a_fitted_model_as_csv_is_the_same_model(everhold, weather):
    chosen = ("dependence", "fit", str(weather), "--kind", "markov_chain", "--order-by", "day", "--state", "weather")
    line = next(csv.DictReader(io.StringIO(everhold(*chosen, "--format", "csv").stdout)))
    fitted = json.loads(everhold(*chosen, "--format", "json").stdout)
    assert json.loads(line["transition"]) == fitted["transition"]
    assert line["miss"] == str(fitted["miss"])


def test_rows_that_cannot_be_read(everhold, tmp_path):
    chosen = ("--kind", "markov_chain", "--order-by", "a", "--state", "b")
    assert (
        "There is no training file" in everhold("dependence", "fit", str(tmp_path / "no.csv"), *chosen, code=3).stderr
    )


@pytest.mark.parametrize(
    ("text", "reason", "code"),
    [
        ("rows: 3", "is not a dependence model", 9),
        ("[1]", "is not a dependence model", 9),
        ('{"kind": "magic"}', "'magic' is unknown", 9),
        ('{"kind": "markov_chain"}', "'transition'", 9),
        ('{"kind": "independent"}', "Pass a Markov chain or a network", 9),
        (None, "cannot be used", 1),
    ],
)
def test_a_file_without_a_chain_is_explained(everhold, tmp_path, text, reason, code):
    file = tmp_path / "model.json"
    if text is not None:
        file.write_text(text)
    assert reason in everhold(*QUILTS, "--model", str(file), code=code).stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("quilts", "--rows", "0", "--epsilon", "1"), "rows is 0"),
        (("quilts", "--rows", "1000000000", "--epsilon", "1"), "Pass a whole number from 1 to 1,000,000"),
        (("quilts", "--rows", "10", "--epsilon", "0"), "epsilon is 0"),
        (("quilts", "--rows", "10", "--epsilon", "nan"), "epsilon is nan"),
        (("quilts", "--rows", "6000", "--epsilon", "1", "--format", "json"), "or --format csv"),
        (("quilts", "--rows", "10", "--epsilon", "1", "--row", "10", "--chart", "a.svg"), "no row 10"),
        (("describe", "--rows", "0"), "--rows is 0"),
        (("describe", "--queries", "10", "--chart", "a.svg"), "without --rows"),
    ],
)
def test_wrong_usage_is_explained(everhold, chain_file, arguments, reason):
    assert reason in everhold("dependence", arguments[0], "--model", chain_file, *arguments[1:], code=2).stderr


def test_plans_are_made_under_a_model(everhold, tmp_path):
    file = tmp_path / "groups.json"
    file.write_text(json.dumps(Groups([5]).to_dict()))
    wanted = ("plan", "--rows", "20000", "--queries", "50", "--surprises", "2", "--format", "json")
    planned = json.loads(everhold(*wanted, "--model", str(file)).stdout)
    expected = plan(rows=20_000, queries=50, surprises=2, dependence=Groups([5]))
    assert planned == json.loads(json.dumps(expected.to_dict()))
    assert planned["lines"] != json.loads(everhold(*wanted).stdout)["lines"]


def test_a_plan_under_a_file_without_a_model_is_refused(everhold, tmp_path):
    file = tmp_path / "model.json"
    file.write_text("{}")
    refused = everhold("plan", "--rows", "2000", "--queries", "50", "--model", str(file), code=9)
    assert "has no kind" in refused.stderr


def test_what_was_not_searched_is_said(everhold, tmp_path):
    slow = tmp_path / "slow.json"
    slow.write_text('{"kind": "markov_chain", "transition": [[0.9999, 0.0001], [0.0001, 0.9999]]}')
    asked = ("dependence", "quilts", "--epsilon", "1", "--model", str(slow))
    assert "more than 2,048 rows away were not looked at" in everhold(*asked, "--rows", "20000").stderr
    assert "not looked at" not in everhold(*asked, "--rows", "1000").stderr
