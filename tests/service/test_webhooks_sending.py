"""A delivery is signed, goes where it was checked to go, ends in time, and brings nothing back but a status."""

import datetime
import ipaddress
import ssl
import time
from dataclasses import replace

import pytest

pytest.importorskip("fastapi")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from webhook_receivers import LOOPBACK, behaving, receiving, verified

from everhold.service.webhooks import sending
from everhold.service.webhooks.sending import Sender, signed_headers

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLw=="
PUBLIC = "93.184.215.14"
SENDER = Sender(internal=True, resolve=lambda _, __: [LOOPBACK], deadline=5.0)


def send(url, sender=SENDER):
    return sender.send(url, SECRET, delivery="msg_1", body=b'{"type":"webhook.test"}')


def test_it_is_signed_as_standard_webhooks_says():
    # made with the package standardwebhooks 1.1.0
    signed = signed_headers(
        SECRET, delivery="msg_p5jXN8AQM9LWM0D4loKWxJek", at=1_614_265_330, body=b'{"test": 2432232314}'
    )
    assert signed["webhook-signature"] == "v1,/Xy7FLfFISa1TZH7WLT+0x/orG5MlcutAFOpVan3/00="


def test_a_receiver_gets_what_was_signed():
    with receiving(204) as receiver:
        assert send(receiver.url).accepted
    ((headers, body),) = receiver.got
    assert verified(SECRET, headers, body)
    assert headers["content-type"] == "application/json"
    assert headers["Host"] == f"{LOOPBACK}:{receiver.port}"


def test_a_delivery_that_is_replayed_or_altered_is_noticed():
    with receiving() as receiver:
        send(receiver.url)
    ((headers, body),) = receiver.got
    assert not verified(SECRET, headers, body, now=time.time() + 301)
    assert not verified(SECRET, headers, body + b" ")
    assert not verified("whsec_b3RoZXI=", headers, body)
    later = {**headers, "webhook-timestamp": str(int(headers["webhook-timestamp"]) + 300)}
    assert not verified(SECRET, later, body)
    assert not verified(SECRET, {**headers, "webhook-id": "msg_2"}, body)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(status):
    with receiving() as inner, receiving(status, {"location": inner.url}) as receiver:
        sent = send(receiver.url)
    assert len(receiver.got) == 1
    assert (inner.got, sent.accepted) == ([], False)
    assert sent.outcome == f"the receiver answered {status}; redirects are not followed"


@pytest.mark.parametrize("status", [400, 401, 404, 410, 429, 500, 503])
def test_a_status_that_is_no_success_is_told_without_what_the_receiver_wrote(status):
    with receiving(status, {"x-secret": "inner words"}) as receiver:
        assert send(receiver.url).outcome == f"the receiver answered {status}"


class Rebinding:
    """A name that is public when it is checked, and this machine a moment later."""

    def __init__(self):
        self.asked = 0

    def __call__(self, host, port):
        self.asked += 1
        return [PUBLIC] if self.asked == 1 else [LOOPBACK]


def test_a_name_that_is_bound_anew_after_the_check_leads_nowhere_else(monkeypatch):
    went = []

    def connect(address, timeout):
        went.append(address[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(sending.socket, "create_connection", connect)
    name = Rebinding()
    assert not send("https://receiver.example/", Sender(resolve=name)).accepted
    assert (went, name.asked) == ([PUBLIC], 1)


def test_a_sender_that_resolves_the_name_again_is_led_to_this_machine():
    class Naive(Sender):
        def check(self, url):
            target, _ = super().check(url)
            return replace(target, secure=False), self.resolve(target.host, target.port)

    with receiving() as receiver:
        send(f"https://receiver.example:{receiver.port}/", Naive(resolve=Rebinding()))
    assert len(receiver.got) == 1


def test_no_proxy_of_the_environment_is_used(monkeypatch):
    with receiving() as proxy, receiving() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://{LOOPBACK}:{proxy.port}")
        assert send(receiver.url).accepted
    assert (len(proxy.got), len(receiver.got)) == (0, 1)


def waits(connection):
    while connection.recv(4096):
        pass


def drips(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nx-endless: ")
    while True:
        connection.send(b"x")
        time.sleep(0.05)


def never_begins(connection):
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.01)


def speaks_no_http(connection):
    connection.sendall(b"220 mail.example ESMTP\r\n")


@pytest.mark.parametrize("behaviour", [waits, drips, never_begins])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_receiver_that_does_not_come_to_an_end_is_given_up(behaviour, scheme):
    began = time.monotonic()
    with behaving(behaviour) as port:
        sent = send(f"{scheme}://receiver.example:{port}/", replace(SENDER, deadline=0.5))
    assert not sent.accepted
    assert time.monotonic() - began < 3.0


def test_a_receiver_that_speaks_no_http_or_is_not_there_is_told_alike():
    with behaving(speaks_no_http) as port:
        odd = send(f"http://receiver.example:{port}/")
    gone = send(f"http://receiver.example:{port}/")
    assert odd.outcome == gone.outcome == "the receiver cannot be reached, or speaks no HTTP"


def test_an_endless_body_is_not_read():
    def floods(connection):
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65_536)

    began = time.monotonic()
    with behaving(floods) as port:
        assert send(f"http://receiver.example:{port}/").accepted
    assert time.monotonic() - began < 3.0


def test_the_next_address_is_tried_where_one_does_not_take_the_connection():
    with receiving() as receiver:
        sender = replace(SENDER, resolve=lambda _, __: ["127.0.0.9", LOOPBACK])
        assert send(f"http://receiver.example:{receiver.port}/", sender).accepted


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A certificate for receiver.example, as file and as what trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "receiver.example")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("receiver.example"), x509.IPAddress(ipaddress.ip_address("::1"))])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1)).add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, hashes.SHA256())
    )  # fmt: skip
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(file)
    return serving, ssl.create_default_context(cadata=made.public_bytes(serialization.Encoding.PEM).decode())


def test_the_certificate_must_be_for_the_name_although_the_address_was_dialled(authority):
    serving, trusting = authority
    sender = replace(SENDER, context=trusting)
    with receiving(context=serving) as receiver:
        assert send(f"https://receiver.example:{receiver.port}/", sender).accepted
        for host in ("other.example", LOOPBACK):
            assert not send(f"https://{host}:{receiver.port}/", sender).accepted
        unknown = send(f"https://receiver.example:{receiver.port}/")
    assert len(receiver.got) == 1
    assert unknown.outcome == "the receiver's TLS or its certificate is not valid for this host"
