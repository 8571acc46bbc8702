"""The guides to identities do what they say: their SQL and their programs run, in order, as they stand there."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lore_retriever import MemoryStore, NewMemory
from lore_retriever.admin import StoreAdmin
from lore_retriever.identity import Identity, recorded_identity, use_identity
from lore_retriever.testing import HashEmbedder
from support import as_application, run_psql
from tokens import signed

ROOT = Path(__file__).parents[1]
ROLES, SUPABASE, SECURITY = (ROOT / "docs/howto/roles.md", ROOT / "docs/howto/supabase.md", ROOT / "SECURITY.md")
SUFFIX = f"_{os.getpid()}"
NAMES = ("app", "ana_login", "web_user", "authenticated", "anon", "authenticator")


def here(text: str) -> str:
    """The text with roles of this run's own: they belong to the whole server."""
    return re.sub(rf"\b({'|'.join(NAMES)})\b(?=[ ';)]|$)", rf"\1{SUFFIX}", text, flags=re.MULTILINE)


@contextmanager
def roles(database: str, *made_before: str) -> Iterator[None]:
    """Roles that a page takes for granted; every role of it is gone in the end."""
    with psycopg.connect(database, autocommit=True) as connection:
        for statement in made_before:
            connection.execute(here(statement).encode())
        try:
            yield
        finally:
            for name in NAMES:
                role = sql.Identifier(name + SUFFIX)
                if (
                    connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [name + SUFFIX]).fetchone()
                    is not None
                ):
                    connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(role))
                    connection.execute(sql.SQL("DROP ROLE {}").format(role))


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of every block of code, in order; what cannot run here is marked."""
    return re.findall(r"^```([a-z -]+)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_guide_to_roles_leads_through_every_identity(database: str) -> None:
    keeper = StoreAdmin.connect(database)
    modes: list[str] = []
    names: dict[str, Any] = {"TOKEN": signed(org="acme", sub="ana", aud="lore")}
    with roles(database, "CREATE ROLE web_user"):
        application = make_conninfo(database, user="app" + SUFFIX, password="change me")
        for language, text in blocks(ROLES):
            if language == "sql":
                run_psql(database, here(text))
            elif language == "python":
                program = re.sub(r'"postgresql://app@db/\w+"', repr(application), text)
                exec(compile(program, str(ROLES), "exec"), names)
                assert names["memories"].list()[0].content == "The gateway restarts at two."
                names.pop("store").close()
            elif language == "psql":
                login = make_conninfo(database, user="ana_login" + SUFFIX, password="change me")
                assert "The gateway restarts at two." in run_psql(login, text)
            modes.append(recorded_identity(keeper).mode)
    assert list(dict.fromkeys(modes)) == ["settings", "role", "claims", "gateway"]
    assert [hit.text for hit in names["hits"]] == ["The gateway restarts at two."]


def test_the_guide_to_supabase_lets_signed_in_users_search(database: str) -> None:
    use_identity(StoreAdmin.connect(database), Identity(mode="gateway", org_claim=("app_metadata", "org")))
    with MemoryStore.connect(as_application(database), embedder=HashEmbedder(32)) as store:
        for user in ("ana", "ben"):
            store.as_user("acme", user).remember_many([NewMemory(content=f"the gateway of {user}", id="note")])
    before = (
        "CREATE ROLE anon NOLOGIN",
        "CREATE ROLE authenticated NOLOGIN",
        "CREATE ROLE authenticator LOGIN NOINHERIT PASSWORD 'x'",
        "GRANT anon TO authenticator",
        "GRANT authenticated TO authenticator",
    )
    with roles(database, *before):
        for language, text in blocks(SUPABASE):
            if language == "sql":
                run_psql(database, here(text))
        gateway = make_conninfo(database, user="authenticator" + SUFFIX, password="x")

        def request(role: str, **claims: Any) -> list[Any]:
            """As PostgREST serves one: role and claims for a transaction."""
            with psycopg.connect(gateway) as connection:
                settings = {"role": role + SUFFIX, "request.jwt.claims": json.dumps({"role": role, **claims})}
                for name, value in settings.items():
                    connection.execute("SELECT set_config(%s, %s, true)", [name, value])
                return connection.execute("SELECT id, excerpt FROM memory_api.search('gateway', k => 5)").fetchall()

        for user in ("ana", "ben"):
            assert request("authenticated", sub=user, app_metadata={"org": "acme"}) == [
                ("note", f"the gateway of {user}")
            ]
        assert request("authenticated", sub="ana", app_metadata={"org": "globex"}) == []
        assert request("authenticated", sub="ana", user_metadata={"org": "acme"}) == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            request("anon", sub="ana", app_metadata={"org": "acme"})


@pytest.mark.parametrize("page", [ROLES, SUPABASE, SECURITY])
def test_their_links_and_the_tests_they_name_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (page.parent / target).exists(), target
    for named in re.findall(r"`(tests/\w+\.py)`", text):
        assert (ROOT / named).exists(), named
