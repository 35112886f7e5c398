"""Webhooks reach the open internet, and nothing of the inner network, however its addresses are written."""

import pytest

pytest.importorskip("fastapi")

from everhold.service.webhooks.addresses import WebhookRejected, checked_addresses, parsed, resolved

PUBLIC = ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"]
INTERNAL = ["10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fd12:3456::1"]
OWN = ["127.0.0.1", "127.8.8.8", "::1"]
NEVER = [
    "0.0.0.0", "169.254.169.254", "169.254.170.2", "100.100.100.200", "100.64.0.1", "192.0.0.192", "198.18.0.1",
    "192.0.2.1", "203.0.113.7", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "::", "fe80::1",
    "fe80::1%eth0", "ff02::1", "::ffff:127.0.0.1", "::ffff:93.184.215.14", "::127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::1", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1", "fec0::1", "100::1",
    "fd00:ec2::254", "fd20:ce::254", "not an address", "",
]  # fmt: skip


def addresses(*found, url="https://receiver.example/hook", internal=False):
    return checked_addresses(parsed(url, internal=internal), internal=internal, resolve=lambda _, __: list(found))


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_open_internet_are_sent_to(address):
    assert addresses(address) == [address]


@pytest.mark.parametrize("address", [*INTERNAL, *OWN, *NEVER])
def test_other_addresses_are_refused_even_as_one_of_several(address):
    for found in ([address], [PUBLIC[0], address], [address, PUBLIC[0]]):
        with pytest.raises(WebhookRejected, match="nothing was sent") as refused:
            addresses(*found)
        assert not address or address not in str(refused.value)


@pytest.mark.parametrize("address", [*INTERNAL, *OWN])
def test_an_operator_can_allow_internal_addresses(address):
    assert addresses(address, internal=True) == [address]


@pytest.mark.parametrize("address", NEVER)
def test_even_then_the_cloud_s_credentials_and_their_like_are_out_of_reach(address):
    with pytest.raises(WebhookRejected):
        addresses(address, internal=True)


@pytest.mark.parametrize("address", [*PUBLIC, *INTERNAL])
def test_without_tls_nothing_leaves_this_machine(address):
    with pytest.raises(WebhookRejected):
        addresses(address, url="http://receiver.example/", internal=True)
    assert addresses("127.0.0.1", url="http://receiver.example/", internal=True) == ["127.0.0.1"]


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0x7f.1", "017700000001", "127.1", "localhost", "[::1]"])
def test_odd_spellings_of_this_machine_are_judged_by_the_address(host):
    with pytest.raises(WebhookRejected):
        checked_addresses(parsed(f"https://{host}/"))


@pytest.mark.parametrize(
    "url",
    [
        "", "receiver.example", "//receiver.example/", "http://receiver.example/", "ftp://receiver.example/", "https://",
        "file:///etc/passwd", "gopher://receiver.example/", "https://user@receiver.example/",
        "https://user:pass@receiver.example/", "https://receiver.example/#part", "https://receiver.example:99999/",
        "https://receiver.example:x/", "https://receiver.example/a b", "https://receiver.example/\r\nHost: x",
        "https://receiver.example\\@127.0.0.1/", "https://receiv\u00e9r.example/", "https://[::1", "https://a,b/",
        "https://receiver.example/" + "x" * 2_000, "javascript:alert(1)", "https://%31%32%37.0.0.1/",
        "https://a..b/", "https://.receiver.example/", "https://receiver.example./", f"https://{'x' * 64}.example/",
    ],
)  # fmt: skip
def test_what_is_no_plain_https_address_is_refused(url):
    with pytest.raises(WebhookRejected, match="nothing was sent"):
        parsed(url)


def test_a_name_is_resolved_once():
    asked = []
    checked_addresses(parsed("https://receiver.example:8443/"), resolve=lambda *of: asked.append(of) or [PUBLIC[0]])
    assert asked == [("receiver.example", 8443)]


def test_a_name_without_an_address_is_refused():
    with pytest.raises(WebhookRejected, match="has no address"):
        checked_addresses(parsed("https://name.invalid/"))


def test_the_resolver_lists_each_address_once():
    assert resolved("127.0.0.1", 443) == ["127.0.0.1"]
