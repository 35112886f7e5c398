"""What the OpenAPI document says is what the service does, for whatever is sent: requests that fit it, and others.

``API_EXAMPLES=200`` tries more of them.
"""

import contextlib
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, checks, openapi
from web_samples import seal, serving

from everhold_server.principals import Role

EXAMPLES = int(os.environ.get("API_EXAMPLES", "3"))
PATIENCE = 60  # seconds; nobody waits longer for an answer
NAMED = {"name": "flights", "gate": "nightly", "analyst": "ada"}
checks.load_all_checks()
PROMISED = checks.CHECKS.get_by_names([
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance", "unsupported_method", "allow_header_conformance", "positive_data_acceptance",
    "negative_data_rejection",
])  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(seal(tmp_path_factory.mktemp("served"))) as found:
        yield found


def operations(app):
    return [found.ok() for found in openapi.from_dict(app.openapi()).get_all_operations()]


def statuses_of(operation, mode, address, bearing):
    """Statuses of answers to generated requests, each of which was as the document says."""
    named = {name: value for name, value in NAMED.items() if f"{{{name}}}" in operation.path}
    found = set()

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(generation_mode=mode, path_parameters=named or None))
    def answered(case):
        said = case.call(base_url=address, headers=bearing, timeout=PATIENCE)
        found.add(said.status_code)
        case.validate_response(said, checks=PROMISED)

    with contextlib.suppress(Unsatisfiable):  # there is nothing that could be wrong with it
        answered()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize(("role", "name"), [(Role.STEWARD, "grace"), (Role.ANALYST, "ada")])
def test_every_answer_is_as_the_document_says(served, role, name, mode):
    app, address = served
    statuses = set()
    for operation in operations(app):
        text = app.state.token_store.make(role, name, by="test").secret
        statuses |= statuses_of(operation, mode, address, {"authorization": f"Bearer {text}"})
    assert mode is GenerationMode.NEGATIVE or statuses & {200, 201}  # what is not as documented may all be refused
    assert statuses & {400, 403, 409, 422}
    assert 429 not in statuses
