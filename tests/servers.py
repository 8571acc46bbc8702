"""Built-in servers of a test's own: one that its account may reach, too, and a streaming standby of another."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from lore_retriever import embedded
from lore_retriever._postgres.install import server_account
from lore_retriever.embedded import EmbeddedPostgres
from support import postgres_program

SETTINGS = {"fsync": "off", "max_connections": "50", "max_wal_senders": "4"}


@contextmanager
def own_server(**settings: str) -> Iterator[EmbeddedPostgres]:
    """A built-in server that lets the account it runs under connect, as well as whoever started it."""
    with _folder() as folder, embedded.start(folder, settings=SETTINGS | settings) as server:
        yield server


@contextmanager
def standby_of(primary: EmbeddedPostgres, **settings: str) -> Iterator[EmbeddedPostgres]:
    """A streaming standby, made with pg_basebackup; it answers, and has all that the primary had."""
    with _folder() as folder:
        data = folder / "data"
        copy = [postgres_program("pg_basebackup"), "-D", data, "-R", "-X", "stream", "-c", "fast"]
        plain = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        subprocess.run([*copy, "-d", primary.conninfo()], check=True, env=plain, capture_output=True)
        (data / "postmaster.pid").unlink(missing_ok=True)
        account = server_account(primary.path / "data")
        for path in [data, *data.rglob("*")]:
            if account is not None:
                os.lchown(path, account.uid, account.gid)
        (folder / "start.lock").touch(mode=0o600)
        with embedded.start(folder, settings=SETTINGS | settings) as standby:
            yield standby


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="served-"))  # not below a folder that only root may enter
    account = server_account(folder / "data")
    if account is not None:
        os.chown(folder, account.uid, account.gid)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_replay(primary: EmbeddedPostgres, standby: EmbeddedPostgres) -> None:
    """Until the standby has all that the primary has committed."""
    with psycopg.connect(primary.conninfo()) as connection:
        row = connection.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
    assert row is not None
    deadline = time.monotonic() + 30
    with psycopg.connect(standby.conninfo(), autocommit=True) as connection:
        while connection.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", row).fetchone() != (True,):
            assert time.monotonic() < deadline, "the standby does not follow"
            time.sleep(0.02)


def hosts(*servers: EmbeddedPostgres, user: str) -> Mapping[str, str]:
    """libpq's values for whichever of several servers fits."""
    each = [conninfo_to_dict(server.conninfo()) for server in servers]
    return {
        "host": ",".join(str(values["host"]) for values in each),
        "port": ",".join(str(values["port"]) for values in each),
        "dbname": str(each[0]["dbname"]),
        "user": user,
    }
