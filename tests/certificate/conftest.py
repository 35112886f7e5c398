import pytest
from certificate_samples import make_sample


@pytest.fixture
def signed(tmp_path):
    """A certificate and its key."""
    return make_sample(tmp_path)


@pytest.fixture
def document(signed):
    return signed[0].to_dict()
