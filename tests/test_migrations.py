"""Migrations: from nothing, again, at once, printed, under any name, with and without rights."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lore_retriever import InvalidInput, MemoryStore, PermissionDenied, SchemaMismatch, embedded
from lore_retriever.admin import StoreAdmin
from lore_retriever.migrations import apply_migrations, known_migrations, printed_sql, schema_status
from lore_retriever.testing import HashEmbedder
from support import as_application, kept_database, run_psql

ALL = [migration.name for migration in known_migrations()]
EMBEDDER = HashEmbedder(32)


def use(conninfo: str, schema: str = "lore") -> None:
    """Write and search as an application: every leg, statistics, an update, a removal."""
    with MemoryStore.connect(as_application(conninfo), embedder=EMBEDDER, schema=schema, max_size=2) as store:
        ana = store.as_user("acme", "ana")
        ana.remember("Kubernetes restarts the café gateway, see ERR-4471", id="m", aliases=("k8s",))
        ana.remember_many([])
        assert {leg for hit in ana.recall("ERR-4471").hits for leg in hit.legs} == {"vector", "exact", "relaxed"}
        assert "alias" in ana.recall("K8S").hits[0].legs
        assert "relaxed" in ana.recall("kubernetis").hits[0].legs
        assert ana.recall("gateway", filter={"lore_kind": "fact"}).hits[0].id == "m"
        ana.update("m", content="something else")
        ana.forget("m")
        assert ana.list() == []


@pytest.fixture(scope="module")
def golden(repository_root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("dump_schema", repository_root / "scripts" / "dump_schema.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def repository_root() -> Path:
    return Path(__file__).parents[1]


def test_migrating_applies_everything_once(empty_database: str) -> None:
    admin = StoreAdmin.connect(empty_database)
    assert (admin.status().state, list(admin.status().waiting)) == ("missing", ALL)
    assert admin.migrate(EMBEDDER) == ALL
    assert (admin.status().state, list(admin.status().applied)) == ("current", ALL)
    assert admin.migrate(EMBEDDER) == []
    use(empty_database)


def test_two_migrators_at_once_do_the_work_once(empty_database: str) -> None:
    def migrate(_: int) -> list[str]:
        return StoreAdmin.connect(empty_database).migrate(EMBEDDER)

    with ThreadPoolExecutor(3) as pool:
        done = sorted(pool.map(migrate, range(3)), key=len)
    assert done == [[], [], ALL]
    use(empty_database)


def test_two_schemas_of_one_database_can_be_migrated_at_once(empty_database: str) -> None:
    def migrate(schema: str) -> list[str]:
        return StoreAdmin.connect(empty_database, schema=schema).migrate(EMBEDDER)

    names = ("lore", "other", "third")
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(migrate, names)) == [ALL] * 3
    for name in names:
        use(empty_database, name)


def _expect(conninfo: str, match: str) -> None:
    with MemoryStore.connect(as_application(conninfo), embedder=EMBEDDER) as store:
        for attempt in (
            lambda: store.as_user("acme", "ana").recall("x"),
            lambda: store.as_user("acme", "ana").remember("x"),
        ):
            with pytest.raises(SchemaMismatch, match=match):
                attempt()


@pytest.mark.parametrize(
    ("change", "state", "message"),
    [
        ("DELETE FROM lore.migrations WHERE number >= 9", "behind", rf"is behind: {ALL[8]}.*lore-retriever migrate"),
        ("INSERT INTO lore.migrations VALUES (9999, '9999_later', 'x')", "ahead", "newer lore-retriever. Upgrade"),
        (
            "UPDATE lore.migrations SET hash = 'x' WHERE number = 3",
            "edited",
            f"{ALL[2]} was applied from a file that differs",
        ),
    ],
)
def test_a_schema_that_does_not_fit_is_named_and_not_touched(
    database: str, change: str, state: str, message: str
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(change.encode())
    assert StoreAdmin.connect(database).status().state == state
    _expect(database, message)
    if state != "behind":
        with pytest.raises(SchemaMismatch, match=message):
            StoreAdmin.connect(database).migrate(EMBEDDER)


def test_an_empty_database_is_named_with_the_way_out(empty_database: str) -> None:
    with psycopg.connect(empty_database) as connection:
        assert schema_status(connection, "lore").state == "missing"
    _expect(empty_database, "lore-retriever migrate")


def test_a_migration_that_fails_leaves_those_before_it_and_goes_on_later(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA lore")
        connection.execute("CREATE TABLE lore.fusion_config (in_the_way integer)")
        with pytest.raises(psycopg.errors.DuplicateTable):
            apply_migrations(connection)
        assert schema_status(connection, "lore").applied == (*ALL[:2],)
        connection.execute("DROP TABLE lore.fusion_config")
        assert apply_migrations(connection) == ALL[2:]
    StoreAdmin.connect(empty_database).migrate(EMBEDDER)
    use(empty_database)


@pytest.mark.parametrize("schema", ["lore", 'we"ird; DROP', "Überlieferung"])
@pytest.mark.parametrize("roles", [True, False])
def test_the_printed_sql_runs_in_psql_by_itself(empty_database: str, schema: str, roles: bool) -> None:
    run_psql(empty_database, printed_sql(schema, roles=roles))
    admin = StoreAdmin.connect(empty_database, schema=schema)
    assert admin.status().state == "current"
    assert admin.migrate(EMBEDDER) == []
    use(empty_database, schema)


def test_printed_and_applied_sql_build_the_golden_schema(
    create_database: Callable[..., str], golden: ModuleType, repository: Path
) -> None:
    expected = (repository / "sql" / "schema.sql").read_text(encoding="utf-8")
    with kept_database(create_database) as printed, kept_database(create_database) as applied:
        run_psql(printed, printed_sql())
        StoreAdmin.connect(applied).migrate()
        for conninfo in (printed, applied):
            found = golden.dumped(conninfo)
            assert found == expected, "run `python scripts/dump_schema.py` and read what changed"


@pytest.mark.parametrize(
    "schema", ['quo"te', "it's", "My Lore", "a.b", "x" * 63, "ü" * 31 + "x", "SELECT", "%s", "public", "データ"]
)
def test_a_schema_has_any_name(empty_database: str, schema: str) -> None:
    assert StoreAdmin.connect(empty_database, schema=schema).migrate(EMBEDDER) == ALL
    use(empty_database, schema)


@pytest.mark.parametrize("schema", ["", "x" * 64, "ü" * 32, "y" * 70, "a\x00b", "\ud800", "pg_mine"])
def test_a_name_that_postgres_would_not_keep_is_refused(empty_database: str, schema: str) -> None:
    with pytest.raises(InvalidInput, match="schema is"):
        StoreAdmin.connect(empty_database, schema=schema)
    with pytest.raises(InvalidInput, match="schema is"):
        MemoryStore.connect(empty_database, schema=schema)
    with pytest.raises(InvalidInput, match="schema is"):
        printed_sql(schema)


def test_two_stores_stand_side_by_side_in_one_database(empty_database: str) -> None:
    for schema in ("one", "two"):
        StoreAdmin.connect(empty_database, schema=schema).migrate(EMBEDDER)
    application = as_application(empty_database)
    with (
        MemoryStore.connect(application, embedder=EMBEDDER, schema="one") as one,
        MemoryStore.connect(application, embedder=EMBEDDER, schema="two") as two,
    ):
        one.as_user("acme", "ana").remember("the walrus of one", id="m")
        two.as_user("acme", "ana").remember("the walrus of two", id="m")
        assert [hit.text for hit in one.as_user("acme", "ana").recall("walrus").hits] == ["the walrus of one"]
        with psycopg.connect(empty_database, autocommit=True) as connection:
            connection.execute("DROP SCHEMA one CASCADE")
        assert [hit.text for hit in two.as_user("acme", "ana").recall("walrus").hits] == ["the walrus of two"]


@pytest.mark.parametrize("home", ["extensions", 'ex "tra'])
def test_extensions_may_live_in_another_schema(empty_database: str, home: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(home)))
        connection.execute(sql.SQL("REVOKE ALL ON SCHEMA {} FROM PUBLIC").format(sql.Identifier(home)))
        connection.execute(sql.SQL("CREATE EXTENSION vector SCHEMA {}").format(sql.Identifier(home)))
    StoreAdmin.connect(empty_database).migrate(EMBEDDER)
    with psycopg.connect(empty_database) as connection:
        homes = connection.execute(
            "SELECT DISTINCT extnamespace::regnamespace::text FROM pg_extension WHERE extname <> 'plpgsql'"
        ).fetchall()
    assert homes == [(f'"{home.replace(chr(34), chr(34) * 2)}"' if " " in home else home,)]
    use(empty_database)


def test_extensions_may_live_in_several_schemas(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        for schema, extension in (("a", "vector"), ("b", "pg_trgm"), ("c", "unaccent")):
            connection.execute(f"CREATE SCHEMA {schema}".encode())
            connection.execute(f"CREATE EXTENSION {extension} SCHEMA {schema}".encode())
    StoreAdmin.connect(empty_database).migrate(EMBEDDER)
    use(empty_database)


def test_the_printed_sql_names_the_extensions_schema_as_given(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "Ext"')
    run_psql(empty_database, printed_sql(extension_schema="Ext"))
    StoreAdmin.connect(empty_database).migrate(EMBEDDER)
    use(empty_database)


def test_a_database_of_another_encoding_is_refused(server: str) -> None:
    name = "lore_test_latin1"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}".encode())
        connection.execute(
            f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0".encode()
        )
        try:
            with pytest.raises(SchemaMismatch, match=r"LATIN1.*UTF8"):
                StoreAdmin.connect(make_conninfo(server, dbname=name)).migrate(EMBEDDER)
        finally:
            connection.execute(f"DROP DATABASE {name}".encode())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], str]]:
    """A server of its own, where our roles do not exist: `cluster(user, database)` is a connection string."""
    with embedded.start(tmp_path_factory.mktemp("cluster") / "data", settings={"fsync": "off"}) as running:
        with psycopg.connect(running.conninfo(dbname="postgres"), autocommit=True) as connection:
            for rights in ("CREATEROLE", "NOCREATEROLE"):
                name = rights.lower()
                connection.execute(f"CREATE ROLE {name} LOGIN {rights}".encode())
                connection.execute(f"CREATE DATABASE {name} OWNER {name}".encode())
        yield lambda user, database: running.conninfo(dbname=database, user=user)


def _roles(conninfo: str) -> set[str]:
    with psycopg.connect(conninfo) as connection:
        return {
            name
            for (name,) in connection.execute(r"SELECT rolname FROM pg_roles WHERE rolname LIKE 'lore\_%'").fetchall()
        }


def test_an_installation_without_superuser_rights(
    cluster: Callable[[str, str], str], golden: ModuleType, repository: Path
) -> None:
    """In this order, because roles belong to the whole server: refused three times, made, used by others."""
    weak, strong = cluster("nocreaterole", "nocreaterole"), cluster("createrole", "createrole")
    for conninfo, name in ((weak, "nocreaterole"), (strong, "createrole")):
        with pytest.raises(PermissionDenied, match='administrator to run: CREATE EXTENSION vector SCHEMA "public";'):
            StoreAdmin.connect(conninfo).migrate(EMBEDDER)
        run_psql(cluster("postgres", name), 'CREATE EXTENSION vector SCHEMA "public";')
    with pytest.raises(PermissionDenied, match=r"0001_roles .*CREATEROLE"):
        StoreAdmin.connect(weak).migrate(EMBEDDER)
    with pytest.raises(
        PermissionDenied, match=r"lacks the roles lore_owner, lore_search, lore_service, lore_user\..*0001_roles.sql"
    ):
        StoreAdmin.connect(strong).migrate(EMBEDDER, roles=False)
    assert _roles(strong) == set()

    assert StoreAdmin.connect(strong).migrate(EMBEDDER) == ALL
    assert _roles(strong) == {"lore_owner", "lore_search", "lore_service", "lore_user"}
    StoreAdmin.connect(strong).maintain()
    with psycopg.connect(strong, autocommit=True) as connection:
        connection.execute("CREATE ROLE application LOGIN IN ROLE lore_user")
    with MemoryStore.connect(cluster("application", "createrole"), embedder=EMBEDDER) as store:
        ana = store.as_user("acme", "ana")
        ana.remember("the walrus census", visibility="shared")
        assert len(ana.recall("walrus").hits) == 1
        assert len(store.as_user("acme", "ben").recall("walrus").hits) == 1
        assert store.as_user("globex", "ana").recall("walrus").hits == ()
        with pytest.raises(PermissionDenied, match=r"MemoryStore.admin|--admin-database"):
            store.maintain()
        with pytest.raises(PermissionDenied, match=r"MemoryStore.admin|--admin-database"):
            store.migrate()
    expected = (repository / "sql" / "schema.sql").read_text(encoding="utf-8")
    assert _without_owner(golden.dumped(strong)) == _without_owner(expected)

    # The roles are there now: whoever may act as them installs without creating any.
    with psycopg.connect(strong, autocommit=True) as connection:
        connection.execute("GRANT lore_owner, lore_search, lore_service, lore_user TO nocreaterole")
    assert StoreAdmin.connect(weak).migrate(EMBEDDER, roles=False) == [*ALL]
    with psycopg.connect(weak) as connection:
        assert connection.execute("SELECT count(*) FROM lore.memories").fetchone() == (0,)


def _without_owner(dump: str) -> str:
    """Row security of a dump is read as whoever dumps; all else must be the same."""
    return re.sub(r"^SET row_security = \w+;$", "", dump, flags=re.MULTILINE)


def test_files_are_numbered_without_gaps_and_say_what_they_lock() -> None:
    migrations = known_migrations()
    assert [migration.number for migration in migrations] == list(range(1, len(migrations) + 1))
    for migration in migrations:
        header = re.match(r"(--.*\n)+", migration.text)
        assert header is not None, migration.name
        assert "Locks:" in header[0], migration.name


def test_no_file_names_a_schema_or_hides_a_surprise() -> None:
    for migration in known_migrations():
        statements = re.sub(r"--.*", "", migration.text)
        assert not re.search(r"\blore\.(?!org_id|user_id|space|token|bulk|\w*_id)\w+", statements), migration.name
        # what a function of ours executes later (use_identity) is its own affair
        assert not re.search(r"^\s*CREATE OR REPLACE", statements, re.MULTILINE), migration.name
        assert not re.search(r"CREATE \w+ IF NOT EXISTS", statements), migration.name


def test_every_object_of_a_migration_is_introduced_by_its_name(repository: Path) -> None:
    created = re.compile(r"^CREATE (?:UNIQUE )?(?:FUNCTION|TABLE|TYPE) \"?(\w+)", re.MULTILINE)
    for path in sorted((repository / "sql" / "migrations").glob("*.sql")):
        text = path.read_text(encoding="utf-8")
        named = set(re.findall(r"^-- name: (\w+)$", text, re.MULTILINE))
        assert set(created.findall(text)) <= named, path.name
