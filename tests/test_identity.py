"""How a store knows its callers: set by a trusted server, by the login role, by a signed token, by a gateway's claims."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from pydantic import ValidationError

from lore_retriever import AsyncMemoryStore, InvalidInput, MemoryStore, NotFound, PermissionDenied, Scope, ScopeMissing
from lore_retriever.admin import StoreAdmin
from lore_retriever.identity import (
    Identity,
    SignedScope,
    add_token_key,
    map_role,
    mapped_roles,
    recorded_identity,
    remove_token_key,
    signed_scope,
    token_keys,
    unmap_role,
    use_identity,
)
from lore_retriever.testing import HashEmbedder
from support import SEARCH_PATH, as_application, kept_database, scoped
from tokens import SECRET, signed

EMBEDDER = HashEmbedder(32)
WHO = "SELECT lore.scope_org(), lore.scope_user()"
COUNT = "SELECT count(*), count(*) FILTER (WHERE owner = 'ben') FROM lore.memories"


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str], template: str) -> Iterator[str]:
    """Administrator's connection string of a database with a private and a shared memory of everybody."""
    with kept_database(create_database, template) as conninfo:
        with MemoryStore.connect(as_application(conninfo), embedder=EMBEDDER) as store:
            for org in ("acme", "globex"):
                for user in ("ana", "ben"):
                    view = store.as_user(org, user)
                    view.remember(f"the gateway of {org} is {user}'s", id="note")
                    view.remember(f"{user} shares the gateway of {org}", id=f"shared-{user}", visibility="shared")
        yield conninfo


@pytest.fixture(scope="module")
def logins(admin: str) -> Iterator[dict[str, str]]:
    """Connection strings of three login roles that are members of lore_user and of nothing else."""
    roles = {name: f"lore_test_{os.getpid()}_{name}" for name in ("ana", "ben", "nobody")}
    with psycopg.connect(admin, autocommit=True) as connection:
        for role in roles.values():
            connection.execute(
                sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x' IN ROLE lore_user").format(sql.Identifier(role))
            )
    yield {name: make_conninfo(admin, user=role, password="x") for name, role in roles.items()}
    with psycopg.connect(admin, autocommit=True) as connection:
        for role in roles.values():
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def role_of(conninfo: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(conninfo)["user"])


@contextmanager
def identity(conninfo: str, chosen: Identity) -> Iterator[StoreAdmin]:
    """The store under another identity, for as long as the block lasts."""
    keeper = StoreAdmin.connect(conninfo)
    use_identity(keeper, chosen)
    try:
        yield keeper
    finally:
        use_identity(keeper, Identity())


@pytest.fixture
def by_role(admin: str, logins: dict[str, str]) -> Iterator[StoreAdmin]:
    """Callers are known by their login role: ana and ben of acme, and somebody who is not mapped."""
    with identity(admin, Identity(mode="role")) as keeper:
        for name in ("ana", "ben"):
            map_role(keeper, role_of(logins[name]), org="acme", user=name)
        yield keeper


@pytest.fixture
def by_token(admin: str) -> Iterator[StoreAdmin]:
    with identity(admin, Identity(mode="claims")) as keeper:
        add_token_key(keeper, SECRET)
        yield keeper


@pytest.fixture
def by_gateway(admin: str) -> Iterator[StoreAdmin]:
    with identity(admin, Identity(mode="gateway", org_claim=("app_metadata", "org"))) as keeper:
        yield keeper


# --- choosing and recording


def test_a_new_store_trusts_its_server(admin: str) -> None:
    assert recorded_identity(StoreAdmin.connect(admin)) == Identity(mode="settings")


@pytest.mark.parametrize(
    "chosen",
    [
        Identity(mode="role"),
        Identity(mode="claims", org_claim=("o'r\"g", "}{"), user_claim=("a.b",), audience="it's ours"),
        Identity(mode="gateway", user_claim=("user_metadata", "name")),
    ],
)
def test_the_identity_chosen_at_migrate_is_recorded_and_stays(empty_database: str, chosen: Identity) -> None:
    keeper = StoreAdmin.connect(empty_database)
    keeper.migrate(EMBEDDER, identity=chosen)
    assert recorded_identity(keeper) == chosen
    assert keeper.migrate(EMBEDDER) == []
    assert recorded_identity(keeper) == chosen
    keeper.migrate(identity="settings")
    assert recorded_identity(keeper) == Identity()


def test_an_identity_that_cannot_be_is_refused(admin: str) -> None:
    for wrong in ({"mode": "trust"}, {"org_claim": ()}, {"user_claim": ("",)}, {"audience": ""}):
        with pytest.raises(ValidationError):
            Identity(**wrong)
    with (
        psycopg.connect(admin) as connection,
        pytest.raises(psycopg.errors.InvalidParameterValue, match="must be settings"),
    ):
        connection.execute("SELECT lore.use_identity('none')")


def test_neither_users_nor_the_service_role_change_how_callers_are_known(admin: str) -> None:
    statements = [
        "SELECT use_identity('settings')",
        "SELECT add_token_key('mine', repeat('x', 32)::bytea)",
        "SELECT * FROM token_keys",
        "INSERT INTO token_keys VALUES ('mine', repeat('x', 64)::bytea, repeat('x', 64)::bytea)",
        "UPDATE settings SET identity = 'settings'",
        "UPDATE settings SET org_claim = '{sub}'",
        "DELETE FROM settings",
    ]
    for role in ("lore_user", "lore_service", "lore_search"):
        with scoped(admin, "acme", "ana", role=role) as connection:
            for statement in statements:
                with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                    connection.execute(statement.encode())


def test_a_change_of_identity_reaches_sessions_with_prepared_statements(admin: str, logins: dict[str, str]) -> None:
    with psycopg.connect(logins["ana"], autocommit=True, prepare_threshold=0) as connection:
        connection.execute(
            "SELECT set_config('lore.org_id', 'globex', false), set_config('lore.user_id', 'ben', false)"
        )
        for _ in range(7):
            assert connection.execute(COUNT).fetchone() == (3, 2)
        with identity(admin, Identity(mode="role")):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="speaks for nobody here"):
                connection.execute(COUNT)
            connection.execute("SELECT set_config('lore.org_id', '', false), set_config('lore.user_id', '', false)")
            assert connection.execute(COUNT).fetchone() == (0, 0)


# --- settings: a trusted server


def test_a_scope_from_the_request_follows_each_request(app_database: str) -> None:
    """As a dependency of a web framework does: the request's caller in a context variable, one view for all."""
    from contextvars import ContextVar

    caller: ContextVar[Scope] = ContextVar("caller")

    async def request(view: Any, user: str) -> list[str]:
        caller.set(Scope(org="acme", user=user))
        await view.remember(f"the private note of {user}", id="note")
        await asyncio.sleep(0.01)
        return [hit.text for hit in (await view.recall("private note")).hits]

    async def serve() -> list[list[str]]:
        async with AsyncMemoryStore.connect(app_database, embedder=EMBEDDER, max_size=3) as store:
            view = store.as_caller(caller.get)
            users = [f"user{n}" for n in range(20)]
            return await asyncio.gather(*(asyncio.create_task(request(view, user)) for user in users))

    assert asyncio.run(serve()) == [[f"the private note of user{n}"] for n in range(20)]


def test_a_request_without_a_caller_is_refused(store: MemoryStore) -> None:
    from contextvars import ContextVar

    caller: ContextVar[Scope] = ContextVar("caller")
    view = store.as_caller(caller.get)
    with pytest.raises(LookupError):
        view.recall("anything")


# --- role: the login role


def test_a_login_role_reads_and_writes_as_the_member_it_is_mapped_to(
    by_role: StoreAdmin, logins: dict[str, str]
) -> None:
    for name in ("ana", "ben"):
        with MemoryStore.connect(logins[name], embedder=EMBEDDER) as store:
            assert store.whoami() == Scope(org="acme", user=name)
            view = store.as_caller(store.whoami)
            assert {(m.owner, m.id) for m in view.list()} == {
                (name, "note"),
                ("ana", "shared-ana"),
                ("ben", "shared-ben"),
            }
            view.remember("the tide is low at noon", id="tide")
            assert next(hit.owner for hit in view.recall("when is low tide").hits) == name
            view.feedback("tide", useful=True)
            view.forget("tide")


async def test_an_asynchronous_store_asks_who_it_is_too(by_role: StoreAdmin, logins: dict[str, str]) -> None:
    async with AsyncMemoryStore.connect(logins["ben"], embedder=EMBEDDER) as store:
        scope = await store.whoami()
        assert scope == Scope(org="acme", user="ben")
        assert len(await store.as_user(scope.org, scope.user).list()) == 3


@pytest.mark.parametrize(("org", "user"), [("acme", "ben"), ("globex", "ana"), ("globex", "ben")])
def test_no_argument_widens_what_the_login_role_gives(
    by_role: StoreAdmin, logins: dict[str, str], org: str, user: str
) -> None:
    with MemoryStore.connect(logins["ana"], embedder=EMBEDDER) as store:
        view = store.as_user(org, user)
        attempts: list[Callable[[], Any]] = [
            lambda: view.recall("gateway"),
            lambda: view.list(),
            lambda: view.get("note"),
            lambda: view.remember("forged", id="forged"),
            lambda: view.build_context("gateway"),
            lambda: view.explain("gateway"),
            lambda: view.aliases(),
            lambda: view.feedback("shared-ben", useful=True),
        ]
        for attempt in attempts:
            with pytest.raises(PermissionDenied, match=rf"speaks for ana of acme, not for {user} of {org}"):
                attempt()
        assert len(store.as_user("acme", "ana").list()) == 3


def test_a_login_role_that_is_not_mapped_is_nobody(by_role: StoreAdmin, logins: dict[str, str], admin: str) -> None:
    for conninfo in (logins["nobody"], admin):  # not even a superuser, through the library
        with MemoryStore.connect(conninfo, embedder=EMBEDDER) as store:
            with pytest.raises(ScopeMissing, match="an administrator maps its login role"):
                store.whoami()
            with pytest.raises(PermissionDenied, match="speaks for nobody here"):
                store.as_user("acme", "ana").recall("gateway")
    with psycopg.connect(logins["nobody"]) as connection:
        assert connection.execute(COUNT).fetchone() == (0, 0)
        assert connection.execute("SELECT count(*) FROM lore.recall(ARRAY['gateway'])").fetchone() == (0,)


def test_a_mapping_counts_from_the_next_statement_on(by_role: StoreAdmin, logins: dict[str, str]) -> None:
    nobody = role_of(logins["nobody"])
    with psycopg.connect(logins["nobody"], autocommit=True) as connection:
        assert connection.execute(WHO).fetchone() == (None, None)
        map_role(by_role, nobody, org="globex", user="ana")
        assert connection.execute(WHO).fetchone() == ("globex", "ana")
        assert connection.execute(COUNT).fetchone() == (3, 1)
        unmap_role(by_role, nobody)
        assert connection.execute(COUNT).fetchone() == (0, 0)
    with pytest.raises(NotFound):
        unmap_role(by_role, nobody)
    with pytest.raises(ScopeMissing):
        map_role(by_role, nobody, org="", user="ana")
    with pytest.raises(InvalidInput):
        map_role(by_role, "", org="acme", user="ana")


def test_a_mapping_of_a_role_that_is_gone_is_told(by_role: StoreAdmin) -> None:
    with by_role.owner() as cursor:
        cursor.execute("RESET ROLE; CREATE ROLE lore_test_gone LOGIN IN ROLE lore_user")
    map_role(by_role, "lore_test_gone", org="acme", user="gone")
    with by_role.owner() as cursor:
        cursor.execute("RESET ROLE; DROP ROLE lore_test_gone")
    assert {row["role_name"]: row["exists"] for row in mapped_roles(by_role)}["lore_test_gone"] is False
    unmap_role(by_role, "lore_test_gone")
    assert {(row["org"], row["user"], row["exists"]) for row in mapped_roles(by_role)} == {
        ("acme", "ana", True),
        ("acme", "ben", True),
    }


@pytest.mark.parametrize(
    ("right", "said"),
    [
        (None, r"there is no role lore_test_\d+_trap: first make a login role of that name, a member of lore_user"),
        ("SUPERUSER", r"lore_test_\d+_trap is a superuser, so that row security does not hold.*member of lore_user"),
        ("BYPASSRLS", r"lore_test_\d+_trap has BYPASSRLS, so that row security does not hold.*member of lore_user"),
    ],
)
def test_a_role_that_row_security_does_not_hold_for_speaks_for_nobody(
    by_role: StoreAdmin, admin: str, right: str | None, said: str
) -> None:
    role = f"lore_test_{os.getpid()}_trap"
    name = sql.Identifier(role)
    with psycopg.connect(admin) as connection:
        if right is not None:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN {}").format(name, sql.SQL(right)))  # type: ignore[arg-type]
            connection.commit()
        try:
            with pytest.raises(InvalidInput, match=said):
                map_role(by_role, role, org="acme", user="ana")
        finally:
            connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(name))


# --- claims: a signed token


def token_scope(**claims: Any) -> SignedScope:
    return signed_scope(signed(**claims))


def test_a_token_gives_the_scope_that_it_names(by_token: StoreAdmin, admin: str) -> None:
    with MemoryStore.connect(as_application(admin), embedder=EMBEDDER, max_size=1) as store:
        for org, user in (("acme", "ana"), ("globex", "ben"), ("acme", "ben")):
            view = store.as_caller(lambda org=org, user=user: token_scope(org=org, sub=user))  # type: ignore[misc]
            private = [hit.text for hit in view.recall("gateway").hits if hit.visibility == "private"]
            assert private == [f"the gateway of {org} is {user}'s"]
            assert view.remember("mine", id="mine") == "mine"
            view.forget("mine")


async def test_a_token_serves_asynchronous_code_too(by_token: StoreAdmin, admin: str) -> None:
    async with AsyncMemoryStore.connect(as_application(admin), embedder=EMBEDDER) as store:
        view = store.as_caller(lambda: token_scope(org="acme", sub="ana"))
        assert len((await view.recall("gateway")).hits) == 3


@pytest.mark.parametrize(
    "odd", [{"x": float("inf")}, {"x": "\u0000"}, {"x": "\ud800"}], ids=["infinite", "NUL", "surrogate"]
)
def test_a_signed_token_that_the_database_cannot_read_is_an_error_of_ours(
    by_token: StoreAdmin, admin: str, odd: dict[str, Any]
) -> None:
    with MemoryStore.connect(as_application(admin), embedder=EMBEDDER) as store:
        view = store.as_caller(lambda: token_scope(org="acme", sub="ana", **odd))
        with pytest.raises(InvalidInput, match="the database cannot read a value"):
            view.recall("gateway")


def test_without_a_token_there_is_no_scope(by_token: StoreAdmin, admin: str) -> None:
    with MemoryStore.connect(as_application(admin), embedder=EMBEDDER) as store:
        with pytest.raises(PermissionDenied, match="a transaction without a token speaks for nobody here"):
            store.as_user("acme", "ana").recall("gateway")
        with pytest.raises(ScopeMissing):
            store.whoami()
    with psycopg.connect(as_application(admin)) as connection:
        assert connection.execute(COUNT).fetchone() == (0, 0)


def test_the_token_of_one_transaction_is_gone_in_the_next(by_token: StoreAdmin, admin: str) -> None:
    with MemoryStore.connect(as_application(admin), embedder=EMBEDDER, min_size=1, max_size=1) as store:
        assert store.as_caller(lambda: token_scope(org="acme", sub="ana")).recall("gateway").hits
        with pytest.raises(PermissionDenied):
            store.as_user("acme", "ana").recall("gateway")


def test_a_token_stands_in_no_statement_that_others_of_the_same_login_can_read(
    by_token: StoreAdmin, admin: str
) -> None:
    given = token_scope(**GOOD)
    seen: list[str] = []
    with (
        MemoryStore.connect(as_application(admin), embedder=EMBEDDER, min_size=1, max_size=1) as store,
        psycopg.connect(as_application(admin), autocommit=True) as other,
    ):

        def look() -> Scope:
            rows = other.execute("SELECT query FROM pg_stat_activity WHERE usename = current_user").fetchall()
            seen.extend(query for (query,) in rows)
            return given

        view = store.as_caller(look)
        for _ in range(7):  # before and after the driver prepares its statements
            assert view.recall("gateway").hits
        look()
        assert other.execute(COUNT).fetchone() == (0, 0)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            other.execute("SELECT * FROM lore.token_keys")
    assert any("COMMIT" in query or "recall" in query for query in seen)
    assert not any(part in query for query in seen for part in given.token.split("."))


def tampered(token: str) -> str:
    head, _, signature = token.split(".")
    claims = {"org": "globex", "sub": "ben", "exp": time.time() + 60}
    return f"{head}.{base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b'=').decode()}.{signature}"


GOOD = {"org": "acme", "sub": "ana"}
BAD_TOKENS: dict[str, tuple[Callable[[], str], str]] = {
    "another key": (lambda: signed(b"another secret of enough bytes, too", **GOOD), "not signed by a key"),
    "other claims": (lambda: tampered(signed(**GOOD)), "not signed by a key"),
    "no signature": (lambda: signed(**GOOD).rsplit(".", 1)[0] + ".", "not signed by a key"),
    "half a signature": (lambda: signed(**GOOD)[:-20], "not signed by a key"),
    "a fourth part": (lambda: signed(**GOOD) + ".x", "not signed by a key"),
    "a signature with newlines": (lambda: signed(**GOOD)[:-1] + "\n", "not signed by a key"),
    "no token": (lambda: "ana", "not signed by a key"),
    "a long one": (lambda: "a" * 20_000 + signed(**GOOD), "not signed by a key"),
    "algorithm none": (lambda: signed(head={"alg": "none"}, **GOOD), "does not say that it is signed by HS256"),
    "algorithm RS256": (lambda: signed(head={"alg": "RS256"}, **GOOD), "does not say that it is signed by HS256"),
    "expired": (lambda: signed(**GOOD, exp=time.time() - 1), "has expired"),
    "for ever": (lambda: signed(**GOOD, exp=None), "has no time at which it ends"),
    "an end in words": (lambda: signed(**GOOD, exp="9999999999"), "has no time at which it ends"),
    "not yet": (lambda: signed(**GOOD, nbf=time.time() + 600), "does not hold yet"),
}


@pytest.mark.parametrize("name", BAD_TOKENS)
def test_a_bad_token_is_an_error_and_never_another_scope(by_token: StoreAdmin, admin: str, name: str) -> None:
    make, said = BAD_TOKENS[name]
    with psycopg.connect(as_application(admin)) as connection:
        connection.execute("SELECT set_config('lore.token', %s, true)", [make()])
        for statement in (COUNT, WHO, "SELECT count(*) FROM lore.recall(ARRAY['gateway'])"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match=said), connection.transaction():
                connection.execute(statement.encode())


def test_a_good_token_beside_another_scope_is_an_error(by_token: StoreAdmin, admin: str) -> None:
    good = signed(**GOOD)
    with MemoryStore.connect(as_application(admin), embedder=EMBEDDER) as store:
        view = store.as_caller(lambda: SignedScope(org="acme", user="ben", token=good))
        with pytest.raises(PermissionDenied, match="the token speaks for ana of acme, not for ben of acme"):
            view.list()


@pytest.mark.parametrize(
    "claims", [{"sub": "ana"}, {"org": "acme"}, {"org": "", "sub": "ana"}, {"org": None, "sub": "ana"}, {}]
)
def test_a_token_that_names_half_a_scope_gives_no_rows(
    by_token: StoreAdmin, admin: str, claims: dict[str, Any]
) -> None:
    with psycopg.connect(as_application(admin)) as connection:
        connection.execute("SELECT set_config('lore.token', %s, true)", [signed(**claims)])
        assert connection.execute("SELECT count(*) FROM lore.recall(ARRAY['gateway'])").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM lore.memories WHERE visibility = 'private'").fetchone() == (0,)


def test_a_token_ends_within_a_transaction_too(by_token: StoreAdmin, admin: str) -> None:
    with psycopg.connect(as_application(admin)) as connection:
        connection.execute("SELECT set_config('lore.token', %s, true)", [signed(**GOOD, exp=time.time() + 1)])
        assert connection.execute(COUNT).fetchone() == (3, 1)
        time.sleep(1.1)
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="has expired"):
            connection.execute(COUNT)


def test_keys_are_added_rotated_and_removed(by_token: StoreAdmin, admin: str) -> None:
    secrets = {"short": b"x" * 32, "of a block": b"y" * 64, "long": b"z" * 100}
    for name, secret in secrets.items():
        add_token_key(by_token, secret, name=name)
    assert {row["name"] for row in token_keys(by_token)} == {"default", *secrets}
    with psycopg.connect(as_application(admin), autocommit=True) as connection:

        def who(secret: bytes) -> Any:
            with connection.transaction():
                connection.execute("SELECT set_config('lore.token', %s, true)", [signed(secret, **GOOD)])
                return connection.execute(WHO).fetchone()

        assert [who(secret) for secret in (SECRET, *secrets.values())] == [("acme", "ana")] * 4
        for name, secret in secrets.items():
            remove_token_key(by_token, name)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                who(secret)
    with pytest.raises(NotFound):
        remove_token_key(by_token, "long")
    with pytest.raises(InvalidInput, match="5 bytes"):
        add_token_key(by_token, b"short")
    with pytest.raises(InvalidInput, match="name is empty"):
        add_token_key(by_token, SECRET, name="")


@pytest.mark.parametrize("audience", ["memory", ["billing", "memory"]])
def test_a_token_must_be_meant_for_the_store_s_audience(admin: str, audience: Any) -> None:
    with (
        identity(admin, Identity(mode="claims", audience="memory", user_claim=("user", "name"))) as keeper,
        psycopg.connect(as_application(admin)) as connection,
    ):
        add_token_key(keeper, SECRET)
        claims = {"org": "acme", "user": {"name": "ana"}}
        for aud, said in ((audience, None), ("billing", "not meant for memory"), (None, "not meant for memory")):
            connection.execute("SELECT set_config('lore.token', %s, true)", [signed(**claims, aud=aud)])
            if said is None:
                assert connection.execute(WHO).fetchone() == ("acme", "ana")
                continue
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match=said), connection.transaction():
                connection.execute(WHO)


def test_the_scope_of_a_token_is_read_from_its_claims() -> None:
    token = signed(app={"org": "acme"}, name="ana")
    scope = signed_scope(token, org_claim=("app", "org"), user_claim=("name",))
    assert (scope.org, scope.user, scope.token) == ("acme", "ana", token)
    assert token not in repr(scope) + str(scope.model_dump()) + scope.model_dump_json()


NESTED = f"e30.{base64.urlsafe_b64encode(b'[' * 9_000).decode()}.AAAA"


@pytest.mark.parametrize("token", ["a.b", "a.b.c", "a.e30.c.d", "a.bnVsbA==.c" * 2, "ä.ö.ü", NESTED, b"a.b.c", 7])
def test_what_is_no_token_is_refused_without_repeating_it(token: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        signed_scope(token)
    assert str(token) not in str(caught.value)


@pytest.mark.parametrize("token", [None, ""])
def test_a_request_without_a_token_has_no_scope(token: str | None) -> None:
    with pytest.raises(ScopeMissing, match="there is no token"):
        signed_scope(token)


@pytest.mark.parametrize("claims", [{}, {"org": "acme"}, {"org": {"x": 1}, "sub": "ana"}, {"org": "acme", "sub": ""}])
def test_a_token_without_names_is_no_scope(claims: dict[str, Any]) -> None:
    with pytest.raises(ScopeMissing, match="the token has no text at"):
        token_scope(**claims)


# --- gateway: claims that PostgREST or Supabase has checked


@contextmanager
def request(admin: str, claims: Any, **settings: str) -> Iterator[psycopg.Connection[Any]]:
    """One transaction as PostgREST begins it: a role, and the claims of the request as JSON."""
    with psycopg.connect(as_application(admin)) as connection:
        connection.execute(
            "SELECT set_config('search_path', %s, true), set_config('role', 'lore_user', true)", [SEARCH_PATH]
        )
        given = {"request.jwt.claims": claims if isinstance(claims, str) else json.dumps(claims), **settings}
        for name, value in given.items():
            connection.execute("SELECT set_config(%s, %s, true)", [name, value])
        yield connection


def test_the_claims_of_a_gateway_are_the_scope(by_gateway: StoreAdmin, admin: str) -> None:
    for org, user in (("acme", "ana"), ("globex", "ben")):
        with request(admin, {"sub": user, "role": "authenticated", "app_metadata": {"org": org}}) as connection:
            assert connection.execute(WHO).fetchone() == (org, user)
            found = connection.execute("SELECT owner, id FROM recall(ARRAY['gateway'])").fetchall()
            assert set(found) == {(user, "note"), ("ana", "shared-ana"), ("ben", "shared-ben")}


@pytest.mark.parametrize(
    "claims",
    [{"role": "anon"}, {"sub": "ana"}, {"app_metadata": {"org": "acme"}}, {"sub": "ana", "app_metadata": "acme"}],
)
def test_claims_that_name_nobody_are_no_scope_whatever_the_settings_say(
    by_gateway: StoreAdmin, admin: str, claims: dict[str, Any]
) -> None:
    with request(admin, claims, **{"lore.org_id": "acme", "lore.user_id": "ana"}) as connection:
        assert connection.execute("SELECT count(*) FROM recall(ARRAY['gateway'])").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM memories WHERE visibility = 'private'").fetchone() == (0,)


def test_a_store_behind_a_gateway_serves_a_trusted_server_too(by_gateway: StoreAdmin, admin: str) -> None:
    with MemoryStore.connect(as_application(admin), embedder=EMBEDDER) as store:
        assert len(store.as_user("acme", "ana").recall("gateway").hits) == 3


def test_arguments_arrive_as_json_as_a_gateway_passes_them(by_gateway: StoreAdmin, admin: str) -> None:
    body = json.dumps({"query_texts": ["gateway"], "query_embeddings": [str([0.5] * 32)], "k": 2})
    called = (
        "WITH a AS (SELECT * FROM json_to_record(%s::json) AS a(query_texts text[], query_embeddings halfvec[], k integer))"
        " SELECT count(*) FROM a, LATERAL recall(a.query_texts, a.query_embeddings, a.k) AS r"
    )
    with request(admin, {"sub": "ana", "app_metadata": {"org": "acme"}}) as connection:
        assert connection.execute(called.encode(), [body]).fetchone() == (2,)
