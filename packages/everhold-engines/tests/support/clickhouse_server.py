"""A ClickHouse server as a client sees it: HTTP on loopback, answered by an embedded one."""

import base64
import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

__all__ = ["running_server"]

_OF_HTTP = {
    "database", "query", "query_id", "session_id", "compress", "decompress", "enable_http_compression", "role",
    "wait_end_of_query", "send_progress_in_http_headers", "http_headers_progress_interval_ms",
    "client_protocol_version", "cancel_http_readonly_queries_on_client_close",
}  # fmt: skip
"""What a client says of the way, and not of the statement."""


@contextlib.contextmanager
def running_server(connection, *, password=None):
    """The port of a server, and what it was asked: settings, statement and how the visitor came in."""
    known = password and f"Basic {base64.b64encode(f'steward:{password}'.encode()).decode()}"
    asked, lock = [], threading.Lock()

    def answer(statement, settings):
        before, _, form = statement.rpartition("FORMAT ")
        limits = ", ".join(f"{name} = '{value}'" for name, value in settings.items())
        asking = f"{before} SETTINGS {limits}" if before and limits else before or form
        with lock:
            try:
                return 200, connection.query(asking, form.strip() if before else "TabSeparated").bytes(), {}
            except Exception as error:
                code = str(error).partition("Code: ")[2].partition(".")[0]
                return 500, str(error).encode(), {"X-ClickHouse-Exception-Code": code or "1"}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            wanted = dict(parse_qsl(urlsplit(self.path).query))
            statement = wanted.get("query") or body
            settings = {name: value for name, value in wanted.items() if name not in _OF_HTTP}
            asked.append((settings, statement, self.headers.get("Authorization", "")))
            status, said, more = answer(statement, settings)
            if known not in (None, self.headers.get("Authorization")):
                said = b"Code: 516. DB::Exception: steward: Authentication failed"
                status, more = 403, {"X-ClickHouse-Exception-Code": "516"}
            headers = {"Content-Length": str(len(said)), "X-ClickHouse-Timezone": "UTC", "X-ClickHouse-Summary": "{}"}
            self.send_response(status)
            for name, value in (headers | more).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST  # noqa: N815  as the base class has it

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
