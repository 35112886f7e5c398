"""Keep one comment about a gate on the pull request of this job: it is written once, and changed in place from then on.

Usage: comment.py FILE MARK. The text of FILE becomes the comment that begins with MARK, which nobody sees. It needs
what GitHub sets for a job, and GITHUB_TOKEN with the permission to write pull requests. Outside of a pull request it
does nothing.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

_PAGE = 100  # comments
_MOST_PAGES = 30


def main(file: str, mark: str) -> None:
    """Write the comment, or change the one that is there."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    about = [event.get("pull_request"), *event.get("workflow_run", {}).get("pull_requests", [])]  # none for a fork
    number = next((each["number"] for each in about if each), None)
    if number is None:
        return
    comments = f"/repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    first = f"<!-- {mark} -->\n"
    text = {"body": first + Path(file).read_text(encoding="utf-8")}
    for page in range(1, _MOST_PAGES + 1):
        found = _asked("GET", f"{comments}/{number}/comments?per_page={_PAGE}&page={page}")
        for each in found:  # of people, who may write any text, none is changed
            if each["user"]["type"] == "Bot" and each["body"].replace("\r\n", "\n").startswith(first):
                _asked("PATCH", f"{comments}/comments/{each['id']}", text)
                return
        if len(found) < _PAGE:
            break
    _asked("POST", f"{comments}/{number}/comments", text)


def _asked(method: str, path: str, document: Any = None) -> Any:
    request = urllib.request.Request(
        os.environ.get("GITHUB_API_URL", "https://api.github.com") + path, method=method,
        data=None if document is None else json.dumps(document).encode(),
        headers={
            "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}", "Accept": "application/vnd.github+json",
            "Content-Type": "application/json",
        },
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.loads(reply.read() or b"null")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
