"""Every error of everhold survives the way through a problem document."""

import json

import pytest

from everhold import errors
from everhold.errors import AuthError, EverholdError, HoldoutNotFound, QueryRejected
from everhold_server.problems import problem
from everhold_server.wire.connection import error_from

KINDS = [
    kind for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, EverholdError) and kind is not EverholdError
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_arrives_as_what_it_was(kind):
    sent = kind("what was wrong", name="flights", left=3)
    response = problem(sent.http_status, kind.__name__, sent.message, **sent.data)
    arrived = error_from(response.status_code, json.loads(response.body))
    assert (type(arrived), str(arrived), arrived.data) == (kind, str(sent), {"name": "flights", "left": 3})


@pytest.mark.parametrize(
    ("status", "kind"), [(403, AuthError), (404, HoldoutNotFound), (422, QueryRejected), (500, EverholdError)]
)
def test_what_has_no_class_of_its_own_goes_by_its_status(status, kind):
    assert type(error_from(status, {"title": "somewhat else", "detail": "so"})) is kind


@pytest.mark.parametrize("document", [None, [], "text", {}, {"detail": 7}])
def test_what_says_nothing_is_no_answer_of_the_service(document):
    arrived = error_from(502, document)
    assert type(arrived) is EverholdError
    assert "status 502" in str(arrived)


def test_nothing_is_said_of_the_charge_where_the_service_says_nothing():
    assert "Nothing was charged." in QueryRejected("there is no such column").told
    assert "nothing was" not in str(error_from(422, None))
    assert str(error_from(422, {"title": "query rejected", "detail": "it ended early"})) == "it ended early"
