"""Reads request bodies: a JSON document, and files in a private folder that is deleted afterwards.

A body is either JSON or multipart. Its files are written to a folder beside that of the sealed rows, because they may
become sealed rows. Each file is named by a number; the name that the client sent is not used. The folder is removed at
the end of the request, even after an error, and after a power cut by a later request.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from everhold.errors import EverholdError
from everhold.private_files import create_private, private_folder
from everhold.sealing.storage import rows_folder
from everhold.strict_json import JsonFault, read_json
from everhold_server.mcp.server import count_values
from everhold_server.principals import current_principal
from everhold_server.untrusted.files import read_untrusted

if TYPE_CHECKING:
    from everhold.queries.predictions.arrays import PredictionTable
    from everhold.values.base import Schema

Document = TypeVar("Document", bound=BaseModel)

MULTIPART = "multipart/form-data"
MOST_DOCUMENT = 2**20
"""Bytes of a JSON document, and of all text fields of a form together."""

MOST_VALUES = 200_000
"""Values of a JSON document, counted by its commas and brackets before any of them becomes an object."""

_MOST_OF_A_CERTIFICATE = 2**22
_DOCUMENT = "request"
_AS_A_FILE = ", or send predictions as a file in a form, or fewer queries"
_MOST_PARTS = 64
_MOST_OF_A_HEADER = 2**12
PART_NAMES = re.compile(r"^[A-Za-z0-9_.-]{1,64}$")
"""Names of the parts of a form."""

_JSON = re.compile(r"application/(json|[\w.-]+\+json)", re.IGNORECASE)
_LEFT_BEHIND = 24 * 3600  # seconds after which no request can still be using its folder


class Unusable(EverholdError):
    """The body of a request cannot be read. Nothing was charged or changed."""

    exit_code = 2
    http_status = 400


class TooLarge(Unusable):
    """The body of a request exceeds the size limit."""

    http_status = 413


class NotTaken(Unusable):
    """The body of a request has a content type that the route does not accept. Nothing was charged or changed."""

    http_status = 415


@dataclass(frozen=True, slots=True)
class RequestContent:
    """Content of one request: the texts of its form and the paths of its files.

    Attributes:
        texts: The text fields of a form by name. A JSON body is stored under the empty name.
        files: Files by the names of their parts.
    """

    texts: Mapping[str, bytes] = field(repr=False)
    files: Mapping[str, Path]

    def document(self, model: type[Document], *, part: str = _DOCUMENT) -> Document:
        """Return the request's JSON document as a validated model.

        Raises:
            Unusable: If the document is not JSON, or an object in it has a name twice. Nothing is charged.
            RequestValidationError: If the document is of another form. A missing part is read as an empty object.
        """
        return _document(model, self.written(part))

    def written(self, part: str = _DOCUMENT) -> bytes:
        """Return the request's JSON document as the bytes that were sent."""
        for name in ("", part, _DOCUMENT):
            if name in self.texts:
                return self.texts[name]
            if name in self.files:  # a form may send any part as a file
                if self.files[name].stat().st_size > MOST_DOCUMENT:
                    raise _too_large(f"The part {name!r}", MOST_DOCUMENT, instead=_AS_A_FILE)
                return self.files[name].read_bytes()
        return b"{}"

    def digest(self, document: Mapping[str, Any], *, key: str) -> str:
        """Return the HMAC-SHA256 of a document and all files, by which a repeated request is recognised.

        Args:
            document: The JSON document of the request, as plain data.
            key: A secret of the sender that the database does not hold. Without a key, somebody who reads the database
                could test guesses of the rows.
        """
        described: dict[str, Any] = {"document": dict(document), "files": {}}
        for name, path in self.files.items():
            with path.open("rb") as file:
                described["files"][name] = hashlib.file_digest(file, "sha256").hexdigest()
        return hmac.digest(key.encode(), json.dumps(described, sort_keys=True).encode(), "sha256").hex()

    def text(self, name: str) -> str | None:
        """Return a text field of a form, or None if it is missing."""
        try:
            return None if name not in self.texts else self.texts[name].decode()
        except UnicodeDecodeError:
            raise _unusable(f"The field {name!r} is not UTF-8 text") from None

    def tables(self, schema: Schema) -> dict[str, PredictionTable]:
        """Return all uploaded files except the document as tables of predictions, by the names of their fields.

        Raises:
            QueryRejected: If a file cannot be read as a table of predictions. Nothing is charged.
        """
        named = {name: path for name, path in self.files.items() if name != _DOCUMENT}
        return {name: read_untrusted(path, schema, name=name) for name, path in named.items()}


def _document(model: type[Document], written: bytes) -> Document:
    if count_values(written) > MOST_VALUES:
        raise _too_large("The JSON document", MOST_VALUES, of="values", instead=_AS_A_FILE)
    try:
        read_json(written)
    except JsonFault as fault:
        raise _no_json(str(fault)) from None
    try:
        return model.model_validate_json(written)
    except ValidationError as fault:
        for error in fault.errors(include_input=False):
            if error["type"] == "json_invalid":  # such as half a character, which Python's reader takes
                raise _no_json("is not well-formed JSON") from None
            if isinstance(reason := error.get("ctx", {}).get("error"), EverholdError):
                raise reason from None
        found = [{**error, "loc": ("body", *error["loc"])} for error in fault.errors(include_input=False)]
        raise RequestValidationError(found) from None


def _no_json(what: str) -> Unusable:
    return Unusable(
        f"The body or a part of it {what}. Send JSON in UTF-8 with each name once and finite numbers. "
        "Nothing was charged."
    )


async def content_of(request: Request) -> RequestContent:
    """Return the content of a request body. It is read only if the request is authenticated.

    Files of a form stay until the request is over, see `everhold_server.middleware.BodyLimitMiddleware`.
    """
    current_principal(request)
    settings = request.app.state.settings
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if _JSON.fullmatch(kind.decode("latin-1")):
        whole = _Whole()
        await _read(request, whole, most=settings.most_bytes)
        return RequestContent(*whole.end())
    if kind.lower() != MULTIPART.encode() or not 0 < len(options.get(b"boundary", b"")) <= 70:
        raise NotTaken(
            f"The type of the body is not accepted. Send application/json, or {MULTIPART} "
            "with a boundary, and name it in the header Content-Type."
        )
    folder: Path = request.state.until_over.enter_context(_folder_for_one(settings.storage))
    with contextlib.closing(_Parts(folder, options[b"boundary"])) as parts:
        await _read(request, parts, most=settings.most_bytes)
        return RequestContent(*parts.end())


async def _read(request: Request, reading: _Whole | _Parts, *, most: int) -> None:
    """Pass the body of a request to a reader piece by piece, up to a limit of bytes."""
    size = 0
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise NotTaken("The body is compressed. Send it uncompressed, without the header Content-Encoding.")
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > most:
                raise _too_large("The body", most)
            await reading.write(chunk)
    except (ClientDisconnect, FormParserError):
        raise _unusable("The body ended early or is not a multipart form") from None


@contextlib.contextmanager
def _folder_for_one(storage: str) -> Iterator[Path]:
    """Return a context with a private folder for the files of one request, deleted at its end."""
    shared = rows_folder(storage).with_suffix(".uploads")
    private_folder(shared)
    with contextlib.suppress(OSError), os.scandir(shared) as found:  # requests whose process was killed
        for entry in found:
            if entry.is_dir(follow_symlinks=False) and entry.stat().st_mtime < time.time() - _LEFT_BEHIND:
                shutil.rmtree(entry.path, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(dir=shared))  # for its owner alone
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Whole:
    """Reader of a request body that keeps it in memory."""

    def __init__(self, most: int = MOST_DOCUMENT) -> None:
        self._content, self._most = bytearray(), most

    async def write(self, chunk: bytes) -> None:
        """Add a piece of the body."""
        if len(self._content) + len(chunk) > self._most:
            raise _too_large("The JSON document", self._most, instead=_AS_A_FILE)
        self._content += chunk

    def end(self) -> tuple[Mapping[str, bytes], Mapping[str, Path]]:
        """Return the document as the text without a name, and no files."""
        return {"": bytes(self._content)}, {}


class _Parts:
    """Reader of a multipart form that keeps texts in memory and writes files to a folder."""

    def __init__(self, folder: Path, boundary: bytes) -> None:
        self._folder = folder
        self._texts: dict[str, bytearray] = {}
        self._files: dict[str, Path] = {}
        self._header, self._value, self._disposition = bytearray(), bytearray(), b""
        self._text: bytearray | None = None
        self._file: int | None = None
        self._ended = False
        calls = (
            "part_begin", "part_data", "part_end", "header_field", "header_value", "header_end", "headers_finished",
            "end",
        )  # fmt: skip
        self._parser = MultipartParser(boundary, {f"on_{name}": getattr(self, f"_{name}") for name in calls})  # type: ignore[arg-type]

    async def write(self, chunk: bytes) -> None:
        """Add a piece of the body, from a thread that may wait for the disk."""
        await run_in_threadpool(self._parser.write, chunk)

    def end(self) -> tuple[Mapping[str, bytes], Mapping[str, Path]]:
        """Return the texts and files of the completed form by name.

        Raises:
            Unusable: If the body ended before the form was complete.
        """
        self._parser.finalize()
        if not self._ended:
            raise _unusable("The multipart form ends before its last boundary")
        return {name: bytes(text) for name, text in self._texts.items()}, self._files

    def close(self) -> None:
        """Close the file that was being written."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _part_begin(self) -> None:
        self._disposition, self._text = b"", None
        if len(self._texts) + len(self._files) >= _MOST_PARTS:
            raise _too_large("The form", _MOST_PARTS, of="parts")

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        _lengthen(self._header, data[start:end])

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        _lengthen(self._value, data[start:end])

    def _header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name", b"").decode("latin-1")
        if not PART_NAMES.fullmatch(name) or name in self._texts or name in self._files:
            raise _unusable(
                "A part of the form has no name, the name of another part, or signs that are not letters, digits or _.-"
            )
        if b"filename" in options:
            path = self._folder / str(len(self._files))
            self._files[name], self._file = path, create_private(path)
        else:
            self._text = self._texts[name] = bytearray()

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            _write_all(self._file, data[start:end])
        elif self._text is not None:
            if sum(map(len, self._texts.values())) + end - start > MOST_DOCUMENT:
                raise _too_large("The text of the form", MOST_DOCUMENT)
            self._text += data[start:end]

    def _part_end(self) -> None:
        self.close()

    def _end(self) -> None:
        self._ended = True


def _lengthen(header: bytearray, more: bytes) -> None:
    if len(header) + len(more) > _MOST_OF_A_HEADER:
        raise _too_large("A header of a part", _MOST_OF_A_HEADER)
    header += more


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _too_large(what: str, most: int, *, of: str = "bytes", instead: str = "") -> TooLarge:
    return TooLarge(f"{what} has too many {of}. Send at most {most:,}{instead}.", most=most)


def _unusable(problem: str) -> Unusable:
    return Unusable(f"{problem}. Send what the API's page (/api/v1/docs) describes.")


async def _received_file(request: Request) -> Path:
    """Return the path of a file with the request body, which must be JSON or HTML."""
    current_principal(request)
    endings = {b"application/json": "json", b"text/html": "html"}
    kind, _options = parse_options_header(request.headers.get("content-type", ""))
    if kind.lower() not in endings:
        raise NotTaken(
            "The type of the body is not accepted. Send application/json or text/html, "
            "and name it in the header Content-Type."
        )
    reading = _Whole(_MOST_OF_A_CERTIFICATE)
    await _read(request, reading, most=_MOST_OF_A_CERTIFICATE)
    if kind.lower() == b"application/json" and count_values(reading.end()[0][""]) > MOST_VALUES:
        raise _too_large("The JSON document", MOST_VALUES, of="values")
    folder = request.state.until_over.enter_context(_folder_for_one(request.app.state.settings.storage))
    path: Path = folder / f"document.{endings[kind.lower()]}"
    with os.fdopen(create_private(path), "wb") as file:
        file.write(reading.end()[0][""])
    return path


Brought = Annotated[RequestContent, Depends(content_of)]
"""Content of a request; a route names its principal first, so that nothing is read of an unauthorised sender."""

BroughtFile = Annotated[Path, Depends(_received_file)]
"""The same of a body that is one document, which is not read as JSON here."""


def document_of(model: type[Document]) -> Callable[..., Awaitable[Document]]:
    """Return a FastAPI dependency that authenticates the request before it reads a small JSON document.

    FastAPI itself would read a body of any size before it checks who sent it.
    """

    async def document(request: Request) -> Any:
        current_principal(request)
        kind, _options = parse_options_header(request.headers.get("content-type", ""))
        if not _JSON.fullmatch(kind.decode("latin-1")):
            raise NotTaken(
                "The type of the body is not accepted. Send application/json, and name it in the header Content-Type."
            )
        reading = _Whole()
        await _read(request, reading, most=MOST_DOCUMENT)
        return await run_in_threadpool(_document, model, reading.end()[0][""])

    return document
