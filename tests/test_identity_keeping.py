"""Choosing how callers are known and keeping their list from the command line; what `doctor` and `status` say of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cli_tools import CommandLine, ana_of
from lore_retriever import Memories, MemoryStore, ScopeMissing
from lore_retriever.admin import StoreAdmin
from lore_retriever.doctor import Report, examine
from lore_retriever.identity import Identity, recorded_identity, use_identity
from lore_retriever.migrations import printed_sql
from lore_retriever.testing import HashEmbedder
from support import kept_database, run_psql
from tokens import SECRET, signed

ROLE = f"lore_test_{os.getpid()}_kept"


@pytest.fixture
def login(database: str) -> Iterator[str]:
    """Connection string of a login role that is a member of lore_user and of nothing else."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x' IN ROLE lore_user").format(sql.Identifier(ROLE)))
        yield make_conninfo(database, user=ROLE, password="x")
        for statement in ("DROP OWNED BY {} CASCADE", "DROP ROLE {}"):
            connection.execute(sql.SQL(statement).format(sql.Identifier(ROLE)))


@pytest.fixture
def look(login: str, database: str) -> Callable[[], dict[str, tuple[str, str]]]:
    """What the doctor says: check to (state, what was told)."""
    return lambda: told(examine(login, admin=StoreAdmin.connect(database)))


def told(report: Report) -> dict[str, tuple[str, str]]:
    return {finding.check: (finding.state, finding.told) for finding in report.findings}


def test_the_commands_choose_an_identity_and_keep_its_callers(database: str, login: str, ana: Memories) -> None:
    ana.remember("the gateway restarts at two", id="g")
    keeper, member = ana_of(database), ana_of(login, database)
    assert keeper("identity", "show").stdout == "identity settings\n"
    chosen = keeper("migrate", "--identity", "role")
    assert chosen.exit_code == 0
    refused = member("recall", "gateway")
    assert (refused.exit_code, "speaks for nobody here" in refused.stderr) == (1, True)
    mapped = keeper("identity", "map", ROLE, "acme", "ana")
    assert (mapped.exit_code, mapped.stdout) == (0, f"{ROLE} speaks for ana of acme\n")
    assert "restarts at two" in member("recall", "gateway").stdout
    other = member("recall", "gateway", "--user", "ben")
    assert (other.exit_code, "speaks for ana of acme, not for ben of acme" in other.stderr) == (1, True)
    shown = json.loads(keeper("identity", "show", "--json").stdout)
    assert shown["identity"]["mode"] == "role"
    assert shown["mapped_roles"] == [
        {"role_name": ROLE, "org": "acme", "user": "ana", "exists": True, "unbounded": False}
    ]
    assert "identity  role" in member("status").stdout
    assert json.loads(member("status", "--user", "ben", "--json").stdout)["caller"].startswith("the login role")
    assert keeper("identity", "unmap", ROLE).exit_code == 0
    again = keeper("identity", "unmap", ROLE)
    assert (again.exit_code, "not mapped" in again.stderr) == (1, True)


def test_who_is_known_by_the_login_role_need_not_say_who(database: str, login: str) -> None:
    keeper, member = CommandLine({"LORE_DATABASE": database}), CommandLine({"LORE_DATABASE": login})
    assert keeper("migrate", "--identity", "role").exit_code == 0
    nobody = member("recall", "gateway")
    assert (nobody.exit_code, "maps its login role" in " ".join(nobody.stderr.split())) == (1, True)
    assert keeper("identity", "map", ROLE, "acme", "ana").exit_code == 0
    assert member("remember", "the gateway restarts at two", "--id", "g").exit_code == 0
    assert [memory["owner"] for memory in json.loads(member("list", "--json").stdout)] == ["ana"]
    assert json.loads(member("status", "--json").stdout)["caller"] == "ana of acme"
    assert member("list", "--org", "acme").exit_code == 0
    other = member("list", "--user", "ben")
    assert (other.exit_code, "speaks for ana of acme, not for ben of acme" in other.stderr) == (1, True)


def test_who_is_known_by_a_token_gives_it(database: str, login: str) -> None:
    keeper, bare = CommandLine({"LORE_DATABASE": database}), CommandLine({"LORE_DATABASE": login})
    assert keeper("migrate", "--identity", "claims", "--org-claim", "app.org").exit_code == 0
    assert keeper("identity", "add-key", "-", input=SECRET).exit_code == 0
    token = signed(app={"org": "acme"}, sub="ana")
    lacking = bare("recall", "gateway")
    assert (lacking.exit_code, "give --token, or set LORE_TOKEN" in " ".join(lacking.stderr.split())) == (1, True)
    assert "LORE_TOKEN" in json.loads(bare("status", "--json").stdout)["caller"]
    member = CommandLine({"LORE_DATABASE": login, "LORE_TOKEN": token})
    assert member("remember", "the gateway restarts at two", "--id", "g").exit_code == 0
    assert "restarts at two" in bare("recall", "gateway", "--token", token).stdout
    assert json.loads(member("status", "--json").stdout)["caller"] == "ana of acme"
    for words in (["--user", "ben"], ["--token", signed(app={"org": "acme"}, sub="ana", secret=b"z" * 32)]):
        refused = member("list", *words)
        assert refused.exit_code == 1
        assert token not in refused.stderr
    ended = member("list", "--token", signed(app={"org": "acme"}, sub="ana", exp=1))
    assert "the token has expired. Give another one by --token or LORE_TOKEN." in " ".join(ended.stderr.split())
    with (
        MemoryStore.connect(login, embedder=HashEmbedder(32)) as store,
        pytest.raises(ScopeMissing, match="signed_scope"),
    ):
        store.whoami()


def test_a_token_that_nobody_asks_for_is_told(app_database: str) -> None:
    found = ana_of(app_database)("list", "--token", "a.b.c")
    assert found.exit_code == 0
    assert "identity is settings: the token counts for nothing" in found.stderr


def test_a_mapping_that_does_not_count_yet_is_told(database: str, login: str) -> None:
    mapped = ana_of(database)("identity", "map", ROLE, "acme", "ana")
    assert mapped.exit_code == 0
    assert "identity is settings" in mapped.stderr


def test_keys_come_from_a_file_or_standard_input_and_are_never_shown(database: str, tmp_path: Path) -> None:
    keeper = ana_of(database)
    file = tmp_path / "secret"
    file.write_bytes(SECRET + b"\n")
    outputs = [
        keeper("migrate", "--identity", "claims", "--org-claim", "app.org", "--audience", "memory"),
        keeper("identity", "add-key", str(file)),
        keeper("identity", "add-key", "-", "--name", "next", input=b"y" * 32),
        keeper("identity", "show"),
        keeper("identity", "show", "--json"),
    ]
    assert [output.exit_code for output in outputs] == [0] * 5
    assert "organisation at app.org, user at sub" in outputs[3].stdout
    assert ("key default" in outputs[3].stdout, "key next" in outputs[3].stdout) == (True, True)
    assert not any(SECRET.decode() in output.output or "y" * 32 in output.output for output in outputs)
    assert recorded_identity(StoreAdmin.connect(database)) == Identity(
        mode="claims", org_claim=("app", "org"), audience="memory"
    )
    with psycopg.connect(database) as connection:
        connection.execute(
            "SELECT set_config('lore.token', %s, true)", [signed(app={"org": "acme"}, sub="ana", aud="memory")]
        )
        assert connection.execute("SELECT lore.scope_org(), lore.scope_user()").fetchone() == ("acme", "ana")
    file.write_bytes(b"short")
    short = keeper("identity", "add-key", str(file))
    assert (short.exit_code, "5 bytes" in short.stderr) == (1, True)
    assert keeper("identity", "remove-key", "next").exit_code == 0
    assert keeper("identity", "remove-key", "next").exit_code == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--identity", "trust"], "give one of settings, role, claims, gateway"),
        (["--audience", "memory"], "need --identity"),
        (["--identity", "claims", "--org-claim", "a..b"], "names with dots between"),
    ],
)
def test_an_identity_that_cannot_be_is_refused_before_anything_is_done(
    database: str, options: list[str], said: str
) -> None:
    refused = ana_of(database)("migrate", *options)
    assert (refused.exit_code, said in " ".join(refused.stderr.split())) == (1, True)
    assert recorded_identity(StoreAdmin.connect(database)) == Identity()


def test_an_application_may_choose_neither_identity_nor_callers(login: str) -> None:
    lore = CommandLine({"LORE_DATABASE": login})
    for arguments in (
        ["migrate", "--identity", "settings"],
        ["identity", "map", ROLE, "globex", "ben"],
        ["identity", "show"],
    ):
        refused = lore(*arguments)
        assert (refused.exit_code, "administrator" in refused.stderr) == (1, True)


def test_the_printed_script_chooses_the_identity_too(create_database: Callable[..., str]) -> None:
    printed = CommandLine({})(
        "migrate",
        "--print-sql",
        "--schema",
        'it"s',
        "--identity",
        "claims",
        "--user-claim",
        "user.it's",
        "--audience",
        "x'y",
    )
    assert printed.stdout.startswith(printed_sql('it"s'))
    with kept_database(create_database) as conninfo:
        run_psql(conninfo, printed.stdout)
        assert recorded_identity(StoreAdmin.connect(conninfo, schema='it"s')) == Identity(
            mode="claims", user_claim=("user", "it's"), audience="x'y"
        )


# --- what the doctor says


def test_the_doctor_says_how_callers_are_known(look: Callable[[], dict[str, tuple[str, str]]], database: str) -> None:
    keeper = StoreAdmin.connect(database)
    assert look()["identity"] == (
        "ok",
        f"settings: a trusted server names its callers; whoever may run SQL as {ROLE} can name any",
    )
    use_identity(keeper, Identity(mode="gateway", org_claim=("app_metadata", "org")))
    assert look()["identity"][0] == "ok"
    assert "organisation at app_metadata.org" in look()["identity"][1]
    use_identity(keeper, Identity(mode="claims", audience="memory"))
    assert look()["token keys"][0] == "broken"
    assert "meant for memory" in look()["identity"][1]
    assert ana_of(database)("identity", "add-key", "-", input=SECRET).exit_code == 0
    assert look()["token keys"] == ("ok", "default")


def test_the_doctor_says_whom_a_login_role_speaks_for(
    look: Callable[[], dict[str, tuple[str, str]]], database: str
) -> None:
    use_identity(StoreAdmin.connect(database), Identity(mode="role"))
    assert look()["identity"] == ("broken", f"role: {ROLE} speaks for nobody, so it finds nothing.")
    assert look()["mapped roles"][0] == "warning"
    lore = ana_of(database)
    lore("identity", "map", ROLE, "acme", "ana")
    assert (look()["identity"], look()["mapped roles"]) == (
        ("ok", f"role: {ROLE} speaks for ana of acme"),
        ("ok", "1 speak for a member each"),
    )
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE {ROLE} BYPASSRLS".encode())
        assert look()["mapped roles"] == (
            "warning",
            f"{ROLE}: a superuser, or BYPASSRLS; reads everybody's rows, whoever it speaks for.",
        )
        connection.execute(f"ALTER ROLE {ROLE} NOBYPASSRLS".encode())
    trap = lore("identity", "map", "lore_test_gone", "acme", "ben")
    assert (trap.exit_code, "there is no role lore_test_gone" in trap.stderr) == (1, True)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE ROLE lore_test_gone LOGIN")
        lore("identity", "map", "lore_test_gone", "acme", "ben")
        connection.execute("DROP ROLE lore_test_gone")
    assert look()["mapped roles"] == (
        "warning",
        "lore_test_gone: no such role; whoever is given that name speaks for its member.",
    )


@pytest.mark.parametrize("mode", ["settings", "role", "claims", "gateway"])
def test_scope_functions_that_do_something_else_are_found(
    look: Callable[[], dict[str, tuple[str, str]]], database: str, mode: str
) -> None:
    use_identity(StoreAdmin.connect(database), Identity(mode=mode))  # type: ignore[arg-type]
    assert "do something else" not in look()["identity"][1]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "CREATE OR REPLACE FUNCTION lore.scope_user() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN 'ben'"
        )
    assert look()["identity"][0] == "broken"
    assert "do something else" in look()["identity"][1]


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("GRANT CREATE ON SCHEMA public TO PUBLIC", "broken"),
        ("GRANT CREATE ON SCHEMA lore TO lore_user", "broken"),
        (f"GRANT CREATE ON SCHEMA public TO {ROLE}", "warning"),
    ],
)
def test_a_schema_where_an_application_may_put_names_before_ours_is_found(
    look: Callable[[], dict[str, tuple[str, str]]], database: str, statement: str, state: str
) -> None:
    assert look()["schemas"][0] == "ok"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(statement.encode())
    assert look()["schemas"][0] == state


@pytest.mark.parametrize("right", ["REPLICATION", "CREATEROLE", "pg_read_server_files", "pg_monitor"])
def test_rights_that_lead_around_row_security_are_a_warning(
    look: Callable[[], dict[str, tuple[str, str]]], database: str, right: str
) -> None:
    assert look()["login role"][0] == "ok"
    statement = f"ALTER ROLE {ROLE} {right}" if right.isupper() else f"GRANT {right} TO {ROLE}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(statement.encode())
    state, said = look()["login role"]
    assert (state, "leads around row security" in said) == ("warning", True)


def test_users_that_may_write_the_mapping_are_found(
    look: Callable[[], dict[str, tuple[str, str]]], database: str
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("GRANT INSERT ON lore.role_identities TO lore_user")
    assert look()["rights"][0] == "broken"


def test_a_store_of_another_name_is_examined_and_used_under_each_identity(
    create_database: Callable[..., str], login: str
) -> None:
    """The scope functions name their helpers in the store's own schema."""
    with kept_database(create_database) as conninfo:
        keeper = StoreAdmin.connect(conninfo, schema="Lore of ours")
        keeper.migrate(HashEmbedder(32), identity="role")
        assert (
            CommandLine({"LORE_DATABASE": conninfo, "LORE_SCHEMA": "Lore of ours"})(
                "identity", "map", ROLE, "acme", "ana"
            ).exit_code
            == 0
        )
        place = psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"]
        with MemoryStore.connect(
            make_conninfo(login, dbname=place), schema="Lore of ours", embedder=HashEmbedder(32)
        ) as store:
            view = store.as_caller(store.whoami)
            view.remember("the gateway restarts at two")
            assert len(view.recall("gateway").hits) == 1
        report = examine(make_conninfo(login, dbname=place), schema="Lore of ours", admin=keeper)
        assert told(report)["identity"] == ("ok", f"role: {ROLE} speaks for ana of acme")
