"""PgBouncer in transaction mode in front of a built-in Postgres, neither of them as root (which both refuse)."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lore_retriever._postgres.install import server_account
from lore_retriever.embedded import EmbeddedPostgres

PORT = 6432

INI = """
[databases]
* = host={host} port={port}

[pgbouncer]
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 400
listen_port = {listen}
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users.txt
admin_users = postgres
ignore_startup_parameters = {ignored}
{prepared}
logfile = {folder}/log
"""


def _without_prepared_statements(program: str) -> str:
    """Newer versions may keep prepared statements themselves, older ones do not know the setting."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.(\d+)", said)
    assert found, said
    return "max_prepared_statements = 0" if (int(found[1]), int(found[2])) >= (1, 21) else ""


def installed_program() -> str | None:
    """Where PgBouncer is, which may lie beside an ordinary user's PATH; None where it is not installed."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")


class PgBouncer:
    """A running PgBouncer, transactions of any number of clients over `size` connections."""

    def __init__(self, server: EmbeddedPostgres, *, size: int = 2, ignored: str = "") -> None:
        conninfo = server.conninfo()
        self._server = conninfo
        self._account = account = server_account(server.path / "data")
        self._folder = Path(tempfile.mkdtemp(prefix="pooler-"))
        program = installed_program()
        assert program, "these tests need PgBouncer: apt-get install pgbouncer, or your system's package of it"
        self._program = program
        values = conninfo_to_dict(conninfo)
        text = INI.format(
            host=values["host"],
            port=values["port"],
            folder=self._folder,
            listen=PORT,
            size=size,
            ignored=ignored,
            prepared=_without_prepared_statements(program),
        )
        (self._folder / "users.txt").write_text('"postgres" ""\n"lore_test_app" "app"\n')
        (self._folder / "pgbouncer.ini").write_text(text)
        if account is not None:
            os.chown(self._folder, account.uid, account.gid)
            for file in self._folder.iterdir():
                os.chown(file, account.uid, account.gid)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def conninfo(self, **changes: str) -> str:
        """The server's connection string, by way of PgBouncer."""
        values = {"host": str(self._folder), "port": str(PORT), "user": "lore_test_app"}
        return make_conninfo(self._server, **(values | changes))

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            [self._program, "-q", str(self._folder / "pgbouncer.ini")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self._account.uid if self._account else None,
            group=self._account.gid if self._account else None,
            extra_groups=[] if self._account else None,
        )
        deadline = time.monotonic() + 20
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, "PgBouncer does not answer"
            time.sleep(0.02)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as end:
            return end.connect_ex(str(self._folder / f".s.PGSQL.{PORT}")) == 0

    def kill(self) -> None:
        """As kill -9 does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)

    def servers(self) -> int:
        """How many connections to the server it holds for applications."""
        with psycopg.connect(self._server, autocommit=True) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = 'lore_test_app' AND backend_type = 'client backend'"
            ).fetchone()
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
