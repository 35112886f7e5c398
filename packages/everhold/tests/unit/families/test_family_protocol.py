"""A protocol says which families are declared, and every other thing in it is refused."""

import os

import pytest

import everhold as eh
from everhold.families.listed import ListedFamily
from everhold.families.protocol import family_from, in_words
from everhold.families.protocol import written as plain
from everhold.families.subgroups import SubgroupFamily
from everhold.families.texts import TextFamily

WHOLE = """
share = 0.75
confidence = 0.9
groups = "patient"
missing = {bp = "drop"}
arms = {arm = "arm", treated = "B", control = "A"}
[families."end points"]
listed = ["late", {mean = "delay", low = -60, high = 180}]
weights = [0.75, 0.25]
[families.rules]
listed = [{error = "x > 3"}, {difference = [{accuracy = "x > 4"}, {accuracy = "x > 3"}]}, {difference = ["x > 4", "y"]}]
[families.trial]
listed = [
  {risk_difference = "died", given = "age > 65"},
  {risk_ratio = {mean = "bp", low = 60, high = 200}, control = "C", by = "centre", groups = ["N", "S"]},
  {quantile = "delay", level = 0.9}, {correlation = "x > 3", with = "y"}, {mean = "late", given = "x > 3"},
  {choose = ["x > 3", {error = "x > 3"}], best = "lowest"}, {f1 = "x > 3"}, {histogram = "x", edges = [0, 1]},
  {metric = "x > 3", score = "recall", where = "y"},
]
[families.carriers]
subgroups = ["carrier"]
of = "delay"
low = 0
high = 60
together = 1
[families.carriers.values]
carrier = ["UA", "DL"]
[families.texts]
texts = 40
"""


def written(folder, text):
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"


def test_a_protocol_says_what_is_declared(tmp_path):
    found = eh.protocol(written(tmp_path, WHOLE))
    points, rules, trial, carriers, texts = found.families.values()
    assert [*found.families] == ["end points", "rules", "trial", "carriers", "texts"]
    settings = found.settings()
    assert (settings["share"], settings["confidence"], settings["dependence"]) == (0.75, 0.9, eh.Groups("patient"))
    assert settings["rows"] == eh.Rows(missing={"bp": "drop"})
    assert (trial.queries[0].treated, trial.queries[1].whole.control, trial.queries[0].given) == ("B", "C", "age > 65")
    assert in_words(trial)[:2] == [
        "risk_difference of died, arm arm, treated B, control A, given age > 65",
        "risk_ratio of mean of bp, low 60, high 200, arm arm, treated B, control C, by centre, groups N and S",
    ]
    assert isinstance(points, ListedFamily)
    assert points.queries == [eh.mean("late"), eh.mean("delay", low=-60, high=180)]
    assert [query.spec().kind for query in rules.queries] == ["error", "difference", "difference"]
    assert isinstance(carriers, SubgroupFamily)
    assert (carriers.of, carriers.values) == (eh.mean("delay", low=0, high=60), {"carrier": ["UA", "DL"]})
    assert texts == TextFamily(40)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "declares nothing"),
        ("families = 3", "declares nothing"),
        ("share = ", "not valid TOML"),
        ("[families.a]\ntexts = 40\nlisted = []", "with one of"),
        ("[families.a]\nbits = 40", "with one of"),
        ("[families.a]\ntexts = 40\nbits = 40", "has 'bits'"),
        ("[families.a]\nlisted = 'late'", "Write a list"),
        ("[families.a]\nlisted = [3]", "Write a text"),
        ("[families.a]\nlisted = [{mean = 'x', middle = 3}]", "has 'middle'"),
        ("[families.a]\nlisted = [{difference = ['x']}]", "Write a list of two"),
        ("[families.a]\nlisted = [{difference = ['x', 3]}]", "Write a text"),
        ("[families.a]\nlisted = [{accuracy = 3}]", "Write a rule"),
        ("[families.a]\nlisted = [{accuracy = 'x', low = 3}]", "has 'low'"),
        ("[families.a]\nsubgroups = ['carrier']", "Write a text"),
        ("budget = 3\n[families.a]\ntexts = 40", "has 'budget'"),
        ("[families.a]\nlisted = ['x', {medain = 'x'}]", "^Family 'a', entry 2 holds .* Write a text"),
        ("[families.a]\nlisted = [{mean = 'x', accuracy = 'y'}]", "Write a text"),
        ("[families.a]\nlisted = [{risk_difference = 'x'}]", "Family 'a', entry 1 holds"),
        ("[families.a]\nlisted = [{quantile = 'x', level = 'high'}]", "level \\(Family 'a', entry 1\\) is 'high'"),
        ("[families.a]\nlisted = [{choose = 'x', best = 'lowest'}]", "Write a list of queries"),
        ("[families.a]\nlisted = [{choose = ['x']}]", "best \\(Family 'a', entry 1\\) is None"),
        ("arms = 3\n[families.a]\ntexts = 40", "arms is 3"),
        ("arms = {treatd = 'B'}\n[families.a]\ntexts = 40", "arms has 'treatd'"),
        ("confidence = 2\n[families.a]\ntexts = 40", "confidence is 2"),
        ("groups = 2\n[families.a]\ntexts = 40", "groups is 2"),
        ("[families.a]\nlisted = [{risk_difference = 'x > 1'}]", "without arm, treated, control. Write them in this"),
        ("[families.a]\nlisted = [{difference = [{mean = 3}, 'x > 1']}]", "^Family 'a', entry 1 has 3 as mean"),
        ("[families.a]\nlisted = [{covariance = 'x > 1'}]", "without with. Write them in this entry"),
        ("missing = []\n[families.a]\ntexts = 40", "missing is"),
    ],
)
def test_everything_else_is_refused(tmp_path, text, why):
    with pytest.raises(eh.QueryRejected, match=why):
        eh.protocol(written(tmp_path, text))


TEXTS = "families:\n  a:\n    texts: 40\n"
DEEP = "{difference = [" * 30 + "'x > 1'" + ", 'x > 2']}" * 30


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.yaml", TEXTS + "  a:\n    members: 3\n", r"has 'a' twice \(line 4\)"),
        ("a.yaml", TEXTS + "families:\n  b:\n    texts: 40\n", "has 'families' twice"),
        ("a.yaml", "families:\n  1: {texts: 40}\n  '1': {texts: 50}\n", "has '1' twice"),
        ("a.yaml", "families: " + "[" * 3_000, "nested more than 20 deep"),
        ("a.YML", "- " * 3_000 + "a", "nested more than 20 deep"),
        ("a.yaml", "families: &f {a: {texts: 40}}", "an anchor, an alias or a tag"),
        ("a.yaml", "families: !!python/object/apply:os.getcwd []", "an anchor, an alias or a tag"),
        ("a.yaml", TEXTS + "---\n" + TEXTS, "a second YAML document"),
        ("a.yaml", "families: {a: {texts: 040}}", "has '040'"),
        ("a.yaml", "families: {a: {texts: " + "9" * 5_000 + "}}", "Put it in quotes"),
        ("a.yaml", "? [a]\n: b", "a list or table as a key"),
        ("a.yaml", "families:\n\ta: 1", "not valid YAML at line 2"),
        ("a.yaml", "\0", "not valid YAML"),
        ("a.yaml", "", "Write a table of families"),
        ("a.yaml", "#" * (2**20 + 1), "larger than 1 MiB"),
        ("a.toml", "queries = " + "9" * 5_000, "not valid TOML"),
        ("a.toml", "x = " + "[" * 3_000, "not valid TOML"),
        ("a.toml", f"[families.a]\nlisted = [{DEEP}]", "nested more than 20 deep"),
    ],
)
def test_a_hostile_file_is_refused_with_the_reason(tmp_path, name, text, why):
    (tmp_path / name).write_text(text)
    with pytest.raises(eh.QueryRejected, match=why):
        eh.protocol(tmp_path / name)


def test_words_and_numbers_of_a_yaml_protocol_are_what_they_look_like(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "share: .25\nfamilies:\n  on: {subgroups: [c], of: x, low: -1.5, high: 1e3, "
        "values: {c: [NO, 'null', 2024-01-01]}}\n"
    )
    found = eh.protocol(tmp_path / "a.yaml")
    ((name, family),) = found.families.items()
    assert (name, found.share, family.of.low, family.of.high) == ("on", 0.25, -1.5, 1000.0)
    assert family.values == {"c": ["NO", "null", "2024-01-01"]}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_a_folder_and_a_missing_file_are_no_protocols(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    for path in (tmp_path / "pipe.toml", tmp_path, tmp_path / "a\0b.toml"):
        with pytest.raises(eh.QueryRejected, match="cannot be read"):
            eh.protocol(path)


def test_a_missing_file_is_said_so(tmp_path):
    with pytest.raises(
        eh.QueryRejected, match=r"nowhere\.toml' cannot be read: there is no such file\. Check the path"
    ):
        eh.protocol(tmp_path / "nowhere.toml")


MORE = [
    ("share = 2\n[families.a]\ntexts = 40", "share is 2"),
    ("queries = 0\n[families.a]\ntexts = 40", "queries is 0"),
    ("surprises = 'many'\n[families.a]\ntexts = 40", "surprises is"),
    ("[families.a]\nmembers = 0", "is 0. Pass the number of its queries"),
    ("[families.a]\nmembers = 3\ntexts = 40", "with one of"),
]


@pytest.mark.parametrize(("text", "why"), MORE)
def test_numbers_that_make_no_sense_are_refused(tmp_path, text, why):
    with pytest.raises(eh.QueryRejected, match=why):
        eh.protocol(written(tmp_path, text))


def test_a_protocol_may_plan_the_queries_that_are_not_declared(tmp_path):
    found = eh.protocol(written(tmp_path, "queries = 500\nsurprises = 7\n" + "[families.a]\nmembers = 30"))
    assert (found.queries, found.surprises, found.share) == (500, 7, 0.5)


def test_families_as_plain_data_are_read_again(tmp_path):
    for name, family in eh.protocol(written(tmp_path, WHOLE)).families.items():
        again = family_from(plain(family), what=name)
        assert plain(again) == plain(family)
    with pytest.raises(eh.QueryRejected, match="plain data"):
        plain(eh.listed([eh.accuracy([1, 0])]))


@pytest.mark.parametrize(
    "family",
    [
        eh.texts("x"),
        eh.listed(["delay > 1"], weights=3),
        eh.subgroups("carrier", of="delay > 1"),
        eh.subgroups(["carrier"], of="delay > 1", together=0),
        eh.subgroups(["carrier"], of="delay > 1", values=["UA"]),
        eh.subgroups(["carrier"], of="delay > 1", values={"carrier": "UA"}),
    ],
)
def test_what_cannot_be_declared_is_not_written_as_plain_data(family):
    with pytest.raises(eh.QueryRejected, match="Pass "):
        plain(family)


def test_the_same_protocol_in_yaml(tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "study.yaml").write_text("share: 0.4\nfamilies:\n  texts:\n    texts: 40\n")
    same = written(tmp_path, "share = 0.4\n[families.texts]\ntexts = 40")
    assert eh.protocol(tmp_path / "study.yaml") == eh.protocol(same)
    (tmp_path / "study.yaml").write_text("share: [")
    with pytest.raises(eh.QueryRejected, match="not valid YAML at line 1"):
        eh.protocol(tmp_path / "study.yaml")
