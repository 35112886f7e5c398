"""The JSON schemas of queries follow from the registry, also for a kind that an extension adds."""

from importlib.metadata import EntryPoint

import jsonschema
import pytest
from wire_samples import queries

from everhold import extensions
from everhold.errors import QueryRejected
from everhold.queries import KINDS, Detail, Form, Kind
from everhold.values.base import Schema
from everhold.values.expressions import ColumnKind
from everhold_server.wire.queries import written
from everhold_server.wire.reading import query_from, query_schemas

SCHEMA = Schema(9, 0, {"x": ColumnKind.NUMBER, "y": ColumnKind.NUMBER}, "y", "binary", None)


def validator():
    return jsonschema.Draft202012Validator({
        "$ref": "#/components/schemas/Query", "components": {"schemas": query_schemas()},
    })  # fmt: skip


def test_the_union_has_every_kind_but_those_that_run_code():
    mapping = query_schemas()["Query"]["anyOf"][1]["discriminator"]["mapping"]
    assert set(mapping) == {kind.name for kind in KINDS if kind.form is not Form.CODE}


@pytest.mark.parametrize("kind", queries())
def test_what_travels_fits_its_schema(kind):
    for query in queries()[kind]:
        validator().validate(written(query)[0])


@pytest.mark.parametrize("told", [
    7, {"kind": "sum", "of": "x"}, {"kind": "mean"}, {"kind": "mean", "of": "x", "lwo": 1},
    {"kind": "gradient", "of": "f"}, {"kind": "private_quantile", "of": "x"},
])  # fmt: skip
def test_what_is_refused_does_not_fit(told):
    assert not validator().is_valid(told)
    with pytest.raises(QueryRejected):
        query_from(told, SCHEMA)


def halved(of, *, by=2):
    return KINDS[0].make(f"({of}) / {by}", low=0, high=1)


HALVED = Kind(
    "halved", f"{__name__}:halved", Form.EXPRESSION, "Half of a number.", {"divisor": "by"},
    brings={"divisor": Detail(Form.WHOLE, "What it is divided by.")},
)  # fmt: skip


def test_a_kind_of_an_extension_is_read_and_documented(monkeypatch):
    group = KINDS.extensions.group
    point = EntryPoint("halved", f"{__name__}:HALVED", group)
    with monkeypatch.context() as patch:
        patch.setitem(extensions.installed(group), "halved", point)
        assert "divisor" in query_schemas()["HalvedQuery"]["properties"]
        asked = query_from({"kind": "halved", "of": "x", "divisor": 4}, SCHEMA)
        assert str(asked.spec().of) == "(x) / 4"
    KINDS.extensions._loaded.pop("halved")
    assert "HalvedQuery" not in query_schemas()
