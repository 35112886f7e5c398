"""What a certificate says about features that are sealed or public, and about predictions by position, is checked."""

import pytest
from certificate_samples import make_sample, replaced, signed_again, written

import everhold as eh
from everhold.certificate import Certificate, verify_certificate
from everhold_privacy.mechanisms.additive import GaussianMechanism
from everhold_privacy.mechanisms.averages import SampleSplitting


def findings_of(folder, document, key):
    return verify_certificate(written(folder / "c.json", signed_again(document, key))).findings


@pytest.mark.parametrize("features", ["sealed", "public"])
def test_the_words_of_a_certificate_follow_from_the_declaration(tmp_path, features):
    certificate, key = make_sample(tmp_path, GaussianMechanism(rows=20_000, queries=10, scale=0.01), features=features)
    assert not findings_of(tmp_path, certificate.to_dict(), key)
    other = {"sealed": "public", "public": "sealed"}[features]
    changed = Certificate(replaced(certificate.to_dict(), ("rows", "features"), lambda _: other))
    before, after = certificate.in_words(), changed.in_words()
    for section in ("promise", "assumptions", "theorem", "not_promised"):
        assert before[section] != after[section]


@pytest.mark.parametrize(
    ("mechanism", "options", "finding"),
    [
        (SampleSplitting(rows=20_000, queries=10), {"features": "public"}, "nothing is promised then"),
        (SampleSplitting(rows=20_000, queries=10), {"by_position": 1}, "they are refused"),
        (
            GaussianMechanism(rows=20_000, queries=10, scale=0.1, dependence=eh.MarkovChain([[0.6, 0.4], [0.4, 0.6]])),
            {"features": "public"}, "nothing is promised then",
        ),
        (GaussianMechanism(rows=20_000, queries=10, scale=0.01), {"by_position": 7}, "than queries"),
    ],
)  # fmt: skip
def test_a_certificate_of_what_is_refused_is_not_believed(tmp_path, mechanism, options, finding):
    certificate, _ = make_sample(tmp_path, mechanism, **options)
    certificate.save(tmp_path / "c.json")
    assert any(finding in found for found in verify_certificate(tmp_path / "c.json").findings)
