import re
from html.parser import HTMLParser

import pytest
from certificate_samples import make_sample, replaced, signed_again

from everhold.certificate import Certificate, verify_certificate
from everhold.certificate.form import DATA_BEGIN
from everhold.certificate.page import render_page

VOID = {"meta", "br", "hr", "img", "input", "link"}
HOSTILE_NAME = "</h1><script>alert(1)</script><b onload='x'>&amp; ]]> \"quoted\" \u202eright to left\x00"
HOSTILE_COLUMNS = (("</script><img src=x onerror=alert(1)>", "number"), ("<!--", "string"), ("'\"&\u2028", "other"))


class Balanced(HTMLParser):
    """Collects text, elements and attributes, and fails where elements do not close in order."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.attributes, self.text, self.comments = [], [], set(), {}, []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        where = self.open[-1] if self.open else ""
        self.text[where] = self.text.get(where, "") + data

    def handle_comment(self, data):
        self.comments.append(data)


@pytest.fixture
def page(signed):
    return signed[0].to_html()


def check(tmp_path, page):
    path = tmp_path / "c.html"
    path.write_bytes(page.encode())
    return verify_certificate(path)


def test_the_page_is_whole_and_needs_nothing_else(page):
    parsed = Balanced(page)
    assert parsed.elements.count("script") == 1
    drawn = {"x1", "x2", "y1", "y2", "cx", "cy", "r", "x", "y", "aria-label"}
    plain = {"lang", "charset", "name", "content", "http-equiv", "class", "id", "type", "role"}
    assert parsed.attributes <= plain | drawn
    for resource in ("http://", "https://", "url(", "@import", "src=", "href="):
        assert resource not in page
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert "size: A4" in page


def test_the_promise_stands_in_the_page_in_large_type(signed):
    certificate, _ = signed
    sentence = certificate.promise.replace("'", "&#x27;")
    assert f'<p class="promise">{sentence}</p>' in certificate.to_html()


def test_the_notebook_shows_the_body_without_the_document(signed):
    fragment = signed[0]._repr_html_()
    Balanced(fragment)
    assert "<script" not in fragment
    assert fragment in signed[0].to_html()


def test_hostile_names_stay_text(tmp_path):
    certificate, key = make_sample(tmp_path, name=HOSTILE_NAME, columns=HOSTILE_COLUMNS)
    page = certificate.to_html()
    parsed, plain = Balanced(page), Balanced(make_sample(tmp_path)[0].to_html())
    assert parsed.elements == plain.elements
    assert parsed.attributes == plain.attributes
    assert parsed.comments == []
    assert "<script>alert(1)</script>" in parsed.text["h1"]
    assert "\u202e" not in page.split("<script")[0]
    assert "\x00" not in page
    assert check(tmp_path, page).ok
    certificate.save(tmp_path / "c.json")
    assert verify_certificate(tmp_path / "c.json", public_key=key.public_key).ok
    assert Certificate.load(tmp_path / "c.html").to_dict() == certificate.to_dict()


def test_any_altered_text_is_found_and_its_section_named(tmp_path, page):
    begin, end = page.index("<article"), page.index("</article>")
    chunks = [match for match in re.finditer(r">([^<>\n]+)<", page) if begin < match.start() < end]
    assert len(chunks) > 80
    for chunk in chunks:
        middle = (chunk.start(1) + chunk.end(1)) // 2
        altered = page[:middle] + ("1" if page[middle] == "0" else "0") + page[middle + 1 :]
        findings = check(tmp_path, altered).findings
        begun = re.findall(r'<section id="everhold-(\w+)"', page[:middle])
        where = f"from the section {begun[-1]!r} on" if begun else "before the first section"
        assert findings == (f"the page's text differs from the signed content, {where}",), chunk[1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<title>", "<title>Approved: "),
        ("--ink: #17212b", "--ink: #ffffff"),
        ("</header>", "<p>Approved.</p></header>"),
        ("</article>", "</article><script>document.title = 1</script>"),
        ("</html>", "</html><!-- approved -->"),
        ('<section id="everhold-not_promised">', '<section id="everhold-not_promised" hidden>'),
        ("<!DOCTYPE html>", " <!DOCTYPE html>"),
        (DATA_BEGIN, DATA_BEGIN + " "),
    ],
)
def test_any_altered_markup_is_found(tmp_path, page, old, new):
    assert page.count(old) == 1
    findings = check(tmp_path, page.replace(old, new)).findings
    assert len(findings) == 1
    assert "the page's text differs from the signed content" in findings[0]


def test_a_cut_off_page_is_found(tmp_path, page):
    assert not check(tmp_path, page[:-2]).ok
    assert not check(tmp_path, page[: page.index(DATA_BEGIN)]).ok


def test_a_second_document_is_found(tmp_path, page):
    assert check(tmp_path, page + DATA_BEGIN + "{}</script>").findings == (
        "the page does not hold exactly one signed document",
    )


def test_a_page_made_from_an_altered_document_is_found_by_its_signature(tmp_path, document):
    altered = replaced(document, ("rows", "holdout"), lambda _: "another")
    findings = check(tmp_path, render_page(altered)).findings
    assert any("'rows' was altered" in finding for finding in findings)


def test_a_page_of_another_version_says_how_to_check_it(tmp_path, signed):
    certificate, key = signed
    older = signed_again(replaced(certificate.to_dict(), ("issue", "version"), lambda _: "0.0.1"), key)
    assert check(tmp_path, render_page(older)).ok
    report = check(tmp_path, render_page(older).replace("everhold · ", "everhold: "))
    assert not report.ok
    assert "Check it with the version it names" in report.unchecked[0]
