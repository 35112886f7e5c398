"""Turn TeX formulas into MathML when the documentation is built, so that pages need no script from elsewhere."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

_WITHIN = re.compile(r'\$<span class="arithmatex">\\\((.*?)\\\)</span>\$', re.DOTALL)  # $$ in a paragraph
_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, **_: object) -> str:
    """Replace every formula of a page; called by MkDocs."""
    for displayed in (_WITHIN, _BLOCK):
        content = displayed.sub(lambda match: convert(html.unescape(match[1]), display="block"), content)
    return _INLINE.sub(lambda match: convert(html.unescape(match[1])), content)
