"""A protocol says which families are declared, and every other thing in it is refused."""

import pytest

import everhold as eh
from everhold.families.listed import ListedFamily
from everhold.families.subgroups import SubgroupFamily
from everhold.families.texts import TextFamily

WHOLE = """
share = 0.75
[families."end points"]
listed = ["late", {mean = "delay", low = -60, high = 180}]
weights = [0.75, 0.25]
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
    points, carriers, texts = found.families.values()
    assert found.share == 0.75
    assert [*found.families] == ["end points", "carriers", "texts"]
    assert isinstance(points, ListedFamily)
    assert points.queries == [eh.mean("late"), eh.mean("delay", low=-60, high=180)]
    assert isinstance(carriers, SubgroupFamily)
    assert (carriers.of, carriers.values) == (eh.mean("delay", low=0, high=60), {"carrier": ["UA", "DL"]})
    assert texts == TextFamily(40)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "declares nothing"),
        ("families = 3", "declares nothing"),
        ("share = ", "no TOML file"),
        ("[families.a]\ntexts = 40\nlisted = []", "expected one of"),
        ("[families.a]\nbits = 40", "expected one of"),
        ("[families.a]\ntexts = 40\nbits = 40", "has 'bits'"),
        ("[families.a]\nlisted = 'late'", "expected a list"),
        ("[families.a]\nlisted = [3]", "expected a text"),
        ("[families.a]\nlisted = [{mean = 'x', middle = 3}]", "has 'middle'"),
        ("[families.a]\nsubgroups = ['carrier']", "expected a text"),
        ("budget = 3\n[families.a]\ntexts = 40", "has 'budget'"),
    ],
)
def test_everything_else_is_refused(tmp_path, text, why):
    with pytest.raises(eh.QueryRejected, match=why):
        eh.protocol(written(tmp_path, text))


def test_a_missing_file_is_said_so(tmp_path):
    with pytest.raises(eh.QueryRejected, match="cannot be read"):
        eh.protocol(tmp_path / "nowhere.toml")
