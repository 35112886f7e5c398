"""A throw-away PostgreSQL cluster on loopback: started once, stopped by its process id, gone afterwards."""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

__all__ = ["Cluster", "programs", "running_cluster"]

_PATIENCE = 60.0
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
        self._made = 0

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
        """Start the server, and wait until it answers."""
        self._run("pg_ctl", "start", "--pgdata", self.data, "--wait", "--silent", "--log", self.folder / "log")

    def stop(self):
        """Stop the server at once, by its process id."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            process = int((self.data / "postmaster.pid").read_text().split()[0])
            os.kill(process, signal.SIGQUIT)
            deadline = time.monotonic() + _PATIENCE
            while Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
                time.sleep(0.01)

    def restart(self):
        """Stop it as a crash does, and start it again."""
        self._run("pg_ctl", "restart", "--pgdata", self.data, "--mode", "immediate", "--wait", "--silent",
                  "--log", self.folder / "log")  # fmt: skip

    def _run(self, program, *arguments):
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
        done = subprocess.run(
            [*as_user, programs() / program, *arguments],
            cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=2 * _PATIENCE,
            check=False, env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.decode(errors='replace')}")


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
