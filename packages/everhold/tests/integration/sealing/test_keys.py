"""The steward's key: written once, read back, and no other key will do."""

import stat

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from everhold import AuthError
from everhold.sealing.storage import StewardKey, signature_holds


@pytest.fixture
def key(tmp_path):
    return StewardKey.create(tmp_path / "steward.key")


def test_the_key_comes_back_and_only_its_owner_can_read_it(key, tmp_path):
    again = StewardKey.load(tmp_path / "steward.key", public_key=key.public_key)
    assert (again.public_key, again.seal_key) == (key.public_key, key.seal_key)
    assert stat.S_IMODE((tmp_path / "steward.key").stat().st_mode) == 0o400


def test_a_key_is_never_overwritten(key, tmp_path):
    with pytest.raises(FileExistsError):
        StewardKey.create(tmp_path / "steward.key")


def test_a_signature_holds_for_its_message_and_key_alone(key, tmp_path):
    other = StewardKey.create(tmp_path / "other.key")
    signature = key.sign(b"promise")
    assert signature_holds(b"promise", signature=signature, public_key=key.public_key)
    assert not signature_holds(b"promises", signature=signature, public_key=key.public_key)
    assert not signature_holds(b"promise", signature=signature, public_key=other.public_key)
    for broken in ("", "zz", "00" * 64, signature[:-2], "é"):
        assert not signature_holds(b"promise", signature=broken, public_key=key.public_key)
        assert not signature_holds(b"promise", signature=signature, public_key=broken)


def test_keys_differ_and_are_not_shown(key, tmp_path):
    other = StewardKey.create(tmp_path / "other.key")
    assert other.public_key != key.public_key
    assert other.seal_key != key.seal_key
    assert repr(key) == "StewardKey()"


def of_another_kind():
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def with_a_password():
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )


@pytest.mark.parametrize("content", [b"", b"rubbish", of_another_kind(), with_a_password()])
def test_what_is_not_the_key_is_refused(key, tmp_path, content):
    path = tmp_path / "found.key"
    path.write_bytes(content)
    with pytest.raises(AuthError):
        StewardKey.load(path, public_key=key.public_key)


def test_a_missing_key_and_a_strange_one_are_refused(key, tmp_path):
    other = StewardKey.create(tmp_path / "other.key")
    with pytest.raises(AuthError, match="another holdout"):
        StewardKey.load(tmp_path / "steward.key", public_key=other.public_key)
    with pytest.raises(AuthError, match="Restore the file"):
        StewardKey.load(tmp_path / "none.key", public_key=key.public_key)
