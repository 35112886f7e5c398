"""Turn notebooks into pages when the documentation is built, as they were run: no script, nothing from elsewhere."""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

_FORMS = ("text/html", "image/svg+xml", "image/png", "text/plain")
"""In which an output is shown, the best first."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put a page beside every notebook; called by MkDocs."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            page = file.src_uri.removesuffix(".ipynb") + ".md"
            files.append(File.generated(config, page, content=page_of(file.content_string, name=file.name + ".ipynb")))
    return files


def page_of(text: str, *, name: str) -> str:
    """A notebook as Markdown, with a link to the notebook itself.

    Args:
        text: The notebook as JSON.
        name: Of its file.
    """
    parts = [part for cell in json.loads(text)["cells"] for part in _cell(cell)]
    return "\n\n".join([*parts, f"[Download this notebook]({name})"]) + "\n"


def _cell(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    return [f"```python\n{source}\n```", *filter(None, map(_output, cell["outputs"]))]


def _output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return _printed("".join(output["text"]))
    form = next(form for form in _FORMS if form in output["data"])
    shown = "".join(output["data"][form]).strip()
    if form == "text/plain":
        return _printed(shown)
    if form == "image/png":
        shown = f'<img src="data:image/png;base64,{html.escape(shown)}" alt="">'
    if form == "text/html":
        shown = re.sub(r"<style scoped>.*?</style>", "", shown, flags=re.DOTALL)  # of pandas, like the next
        shown = shown.replace('<table border="1" class="dataframe">', "<table>")
    shown = re.sub(r"\n\s*\n", "\n", shown)  # an empty line would end the HTML
    return f"<div>\n{shown}\n</div>" if shown else ""


def _printed(text: str) -> str:
    """Text as it was printed; long lines go on in the next one."""
    lines = re.sub(r"\n\s*\n", "\n", html.escape(text.rstrip()))
    return f'<pre style="white-space: pre-wrap"><code>{lines}</code></pre>'
