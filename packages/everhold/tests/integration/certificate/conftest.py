import pytest
from certificate_samples import SHOWN, make_sample


@pytest.fixture
def signed(tmp_path):
    """A certificate that shows answers, and its key."""
    return make_sample(tmp_path, answers=SHOWN)


@pytest.fixture
def document(signed):
    return signed[0].to_dict()
