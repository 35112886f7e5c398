"""A ClickHouse server as a client sees it: HTTP on loopback, answered by an embedded one."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

__all__ = ["running_server"]

_OF_HTTP = {
    "database", "query", "query_id", "session_id", "compress", "decompress", "enable_http_compression",
    "wait_end_of_query", "send_progress_in_http_headers", "http_headers_progress_interval_ms",
    "client_protocol_version", "cancel_http_readonly_queries_on_client_close", "role",
}  # fmt: skip


@contextlib.contextmanager
def running_server(connection):
    """The port of a server, and what it was asked: settings, statement and how the visitor came in."""
    asked, lock = [], threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            wish = dict(parse_qsl(urlsplit(self.path).query))
            statement = wish.get("query") or body
            settings = {name: value for name, value in wish.items() if name not in _OF_HTTP}
            asked.append((settings, statement, self.headers.get("Authorization", "")))
            limits = ", ".join(f"{name} = '{value}'" for name, value in settings.items())
            with lock:
                try:
                    before, _, form = statement.rpartition("FORMAT ")
                    found = connection.query(
                        f"{before or form} {f'SETTINGS {limits}' if limits and before else ''}",
                        form.strip() if before else "TabSeparated",
                    )
                    status, said, more = 200, found.bytes(), {}
                except Exception as error:
                    code = str(error).partition("Code: ")[2].partition(".")[0]
                    status, said, more = 500, str(error).encode(), {"X-ClickHouse-Exception-Code": code or "1"}
            self.send_response(status)
            for name, value in {
                "Content-Length": str(len(said)),
                "X-ClickHouse-Timezone": "UTC",
                "X-ClickHouse-Summary": json.dumps({}),
                **more,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST  # noqa: N815  the name is that of the standard library

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
