"""The commands of the paper's own quantities: rows, leakage, influence, information, sources."""

import csv
import io
import json
import math

import pytest

from everhold_lab.published.bayesian_privacy import bayesian_privacy
from everhold_lab.published.post_selection import exact_max_information, zhao_theorem_3
from everhold_lab.published.thresholdout import zhao_n_sharp, zhao_n_star

PAIR = {"joint": [[0.45, 0.05], [0.05, 0.45]], "law": [[[0.75, 0.25], [0.75, 0.25]], [[0.25, 0.75], [0.25, 0.75]]]}
THEOREM_1 = ("lab", "rows", "--surprises", "10", "--scale", ".01", "--tolerance", ".1", "--failure", ".05")


@pytest.fixture
def pair(tmp_path):
    path = tmp_path / "pair.json"
    path.write_text(json.dumps(PAIR))
    return str(path)


def printed(everhold, *arguments):
    return json.loads(everhold(*arguments, "--format", "json").stdout)


def test_rows_are_those_of_theorem_1(everhold):
    asked = (10, 0.01, 0.1, 0.05)
    found = printed(everhold, *THEOREM_1, "--influence", ".004", "--nearby", "4", "--quilt-influence", ".001")
    assert found == {
        "n_star": math.ceil(zhao_n_star(*asked, blanket_influence=0.004)),
        "n_sharp": math.ceil(zhao_n_sharp(*asked, nearby=4, quilt_influence=0.001)),
        "proof_complete": False,
    }
    assert printed(everhold, *THEOREM_1) == {"n_star": 67_500, "n_sharp": 67_500, "proof_complete": True}
    assert printed(everhold, *THEOREM_1, "--influence", "1")["n_star"] is None


def test_rows_of_a_dependence_model_come_from_its_quilts(everhold, tmp_path):
    chain = tmp_path / "chain.json"
    chain.write_text('{"kind": "markov_chain", "transition": [[0.75, 0.25], [0.25, 0.75]]}')
    shown = everhold(*THEOREM_1, "--model", str(chain), "--model-rows", "10000", "--format", "table")
    assert "erratum 5" in shown.stderr
    found = printed(everhold, *THEOREM_1, "--model", str(chain), "--model-rows", "10000")
    assert found["n_sharp"] > 67_500
    assert found["proof_complete"] is False
    assert "belong together" in everhold(*THEOREM_1, "--model", str(chain), code=2).stderr


def test_leakage_is_the_worst_adversarys_or_that_of_one(everhold, pair):
    found = printed(everhold, "lab", "leakage", pair)
    worst = bayesian_privacy(PAIR["joint"], PAIR["law"])
    assert found == {"leakage": worst.leakage, "row": worst.row, "known": list(worst.known)}
    other = printed(everhold, "lab", "leakage", pair, "--row", "1")
    assert 0.0 < other["leakage"] < found["leakage"]
    assert "--known needs --row" in everhold("lab", "leakage", pair, "--known", "1", code=2).stderr


def test_influence_is_the_log_of_the_largest_ratio(everhold, pair):
    found = printed(everhold, "lab", "influence", pair, "--row", "0", "--targets", "1")
    assert found["influence"] == pytest.approx(math.log(9))
    assert "Pass different numbers" in everhold("lab", "influence", pair, "--row", "0", "--targets", "0", code=2).stderr
    assert "no list of rows" in everhold("lab", "influence", pair, "--row", "0", "--targets", "one", code=2).stderr


def test_information_is_exact_for_a_law_and_bounded_for_a_session(everhold, pair):
    (exact,) = printed(everhold, "lab", "information", pair, "--failure", "0.01")["max_information"]
    assert exact["bits"] == exact_max_information(PAIR["joint"], failure=0.01)
    session = ("lab", "information", "--rows", "10000", "--epsilon", ".02", "--failure", ".01")
    lines = printed(everhold, *session)["max_information"]
    assert [line["statement"].split(", ")[1] for line in lines][1:] == [
        "Theorem 19",
        "Theorem 20",
        "Theorem 3",
    ]
    assert lines[-1]["bits"] == zhao_theorem_3(10_000, leakage=0.02, failure=0.01)
    (approximate,) = printed(everhold, *session, "--delta", "1e-12")["max_information"]
    assert lines[0]["bits"] < approximate["bits"] < 20
    (vacuous,) = printed(everhold, *session, "--delta", "1e-3")["max_information"]
    assert vacuous["bits"] is None
    assert vacuous["p_value"] == 0.0


def test_a_file_without_a_law_is_wrong_usage(everhold, tmp_path, pair):
    broken = tmp_path / "broken.json"
    for content in ("[1, 2]", "{", '{"joint": [[1, "a"], 2]}', '{"joint": {}}', '{"law": []}'):
        broken.write_text(content)
        assert "the example in --help" in everhold("lab", "leakage", str(broken), code=2).stderr
    broken.write_text('{"joint": [[0.5, 0.6]], "law": [[[1], [1]]]}')
    assert "sum to 1" in everhold("lab", "leakage", str(broken), code=2).stderr
    assert "sum to 1" in everhold("lab", "information", str(broken), code=2).stderr
    assert "Nothing to compute" in everhold("lab", "information", code=2).stderr
    assert "Nothing to compute" in everhold("lab", "information", pair, "--rows", "5", "--epsilon", "1", code=2).stderr
    everhold("lab", "influence", str(tmp_path / "absent.json"), "--row", "0", "--targets", "1", code=1)


def test_sources_prints_items_with_calls_and_numbers(everhold):
    lines = list(csv.DictReader(io.StringIO(everhold("lab", "sources", "zhao-2017", "--format", "csv").stdout)))
    numbers = {line["item"]: line["number"] for line in lines}
    assert numbers["Theorem 2"] == "8,230,252"
    assert {line["call"] for line in lines if not line["number"]} == {
        "everhold lab run figure2",
        "everhold lab run figure3",
    }
