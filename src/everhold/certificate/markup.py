"""Text as a page holds it: nothing of a document can become markup."""

from __future__ import annotations

import html

__all__ = ["escaped"]


def escaped(text: str) -> str:
    r"""Text that cannot become markup, nor turn the reading direction, nor hide.

    Examples:
        >>> escaped("<b>") + escaped(chr(0x202E))
        '&lt;b&gt;\\u202e'
    """
    visible = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
    return html.escape(visible)
