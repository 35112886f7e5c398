"""A throw-away PostgreSQL cluster on loopback: started once, gone with the process that started it."""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["Cluster", "programs", "running_cluster"]

_PATIENCE = 60.0
_UP = ("ready", "standby")
_STATUS = 7  # the line of postmaster.pid that says how far the server has come
_SETTINGS = {
    "listen_addresses": "'127.0.0.1'",
    "max_connections": "200",
    "shared_buffers": "'16MB'",
    "password_encryption": "'scram-sha-256'",
    "log_min_messages": "'panic'",
    "autovacuum_naptime": "'1s'",
}


def programs():
    """The folder with PostgreSQL's programs; None if it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    elsewhere = shutil.which("initdb")
    return None if elsewhere is None else Path(elsewhere).resolve().parent


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Cluster:
    """One server of a test run, with a password of its own.

    Args:
        folder: Where it lives; has to be reachable by the user `postgres` if the tests run as root.
        durable: Whether it waits for the disk. Only the machine's own crash can tell the difference.
    """

    def __init__(self, folder, *, durable):
        self.folder, self.durable = folder, durable
        self.password = secrets.token_urlsafe(24)
        self.port = _free_port()
        self._made, self._server = 0, None

    def url(self, database="postgres", **options):
        """The address of a database."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        address = f"postgresql://steward:{self.password}@127.0.0.1:{self.port}/{database}"
        return f"{address}?{query}" if query else address

    def new_database(self, encoding="UTF8"):
        """The name of a new, empty database."""
        import psycopg

        self._made += 1
        name = f"study_{self._made}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            template = "template1" if encoding == "UTF8" else "template0 LC_COLLATE 'C' LC_CTYPE 'C'"
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} ENCODING '{encoding}'")
        return name

    def drop(self, name):
        """Remove a database, whoever uses it."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def create(self):
        """Make the cluster's files."""
        word = self.folder / "password"
        word.write_text(self.password)
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            for path in (self.folder, word):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        self._run(
            "initdb", "--pgdata", self.data, "--username", "steward", "--pwfile", word, "--auth", "scram-sha-256",
            "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync",
        )  # fmt: skip
        word.unlink()
        settings = {**_SETTINGS, "port": self.port, "unix_socket_directories": f"'{self.folder}'"}
        if not self.durable:
            settings |= {"fsync": "off", "full_page_writes": "off"}
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())

    @property
    def data(self):
        return self.folder / "data"

    def start(self):
        """Start the server as a child that ends with this process, however that ends, and wait until it answers."""
        dying = ["--pdeathsig", "QUIT"] if sys.platform == "linux" else []
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [*_as_user(*dying), programs() / "postgres", "-D", self.data],
                cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_environment(), start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + _PATIENCE
        while not self._answers():
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server does not start: {(self.folder / 'log').read_text()[-1_000:]}")
            time.sleep(0.02)

    def _answers(self):
        """Whether the server itself says so, as `pg_ctl` asks it."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            return len(lines) > _STATUS and lines[0] == str(self._server.pid) and lines[_STATUS].strip() in _UP
        return False

    def stop(self):
        """Stop the server at once, as a crash does."""
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait(_PATIENCE)

    def restart(self):
        """Stop it as a crash does, and start it again."""
        self.stop()
        self.start()

    def _run(self, program, *arguments):
        done = subprocess.run(
            [*_as_user(), programs() / program, *arguments],
            cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=2 * _PATIENCE,
            check=False, env=_environment(),
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.decode(errors='replace')}")


def _as_user(*options):
    """Before a command: PostgreSQL does not run as root."""
    if os.getuid() == 0:
        options = ("--reuid=postgres", "--regid=postgres", "--clear-groups", *options)
    return ["setpriv", *options] if options else []


def _environment():
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}


@contextlib.contextmanager
def running_cluster(*, durable=False):
    """A running cluster; nothing of it is left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="everhold-postgres-"))
    cluster = Cluster(folder, durable=durable)
    try:
        cluster.create()
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
