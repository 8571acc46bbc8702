"""Odd and endless queries, through the library and in plain SQL: answered, never an error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lore_retriever import Memories, MemoryStore
from lore_retriever.limits import MAX_QUERY_CHARS
from lore_retriever.testing import HashEmbedder
from support import as_application, kept_database, scoped

Call = Callable[[Any], Any]
few_examples = settings(
    max_examples=60, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def application(create_database: Callable[..., str], template: str) -> Iterator[str]:
    with kept_database(create_database, template) as conninfo:
        yield as_application(conninfo)


@pytest.fixture(scope="module")
def open_store(application: str) -> Iterator[MemoryStore]:
    with MemoryStore.connect(application, embedder=HashEmbedder(32)) as store:
        yield store


@pytest.fixture
def ana(open_store: MemoryStore, request: pytest.FixtureRequest) -> Memories:
    """Each test has an organisation of its own."""
    return open_store.as_user(request.node.name.encode("ascii", "replace").decode()[:200], "ana")


QUERIES = {
    "empty": "",
    "blank": " \t\n\u3000",
    "stop words": "the of and to",
    "NUL": "gate\x00way",
    "lone surrogate": "gate\ud800way\udfff",
    "emoji": "\U0001f642" * 2000,
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 300,
    "combining": "e" + "\u0301" * 5000,
    "right to left": "\u202e\u200f\u05e9\u05dc\u05d5\u05dd gateway",
    "tsquery": "a & b | !c:* (d) <-> 'e'",
    "tsquery weights": "gateway:*A & !x <2> y",
    "quote": '"',
    "open quote": 'gateway "restarts',
    "quotes": '"' * MAX_QUERY_CHARS,
    "backslash": "\\",
    "prefix": ":*",
    "sql": "'; DROP TABLE memories; -- ' OR 1=1 --",
    "like": "%_\\%",
    "jsonpath": '$.a[*] ? (@.b == "c")',
    "regular expression": "(a+)+$ [[:alnum:]] \\y.*",
    "format": "%s %(x)s {0} {x} %%",
    "braces": "{}[]()<>" * 500,
    "parentheses": "(" * MAX_QUERY_CHARS,
    "one dash": "-",
    "thirty-three dashes": "-" * 33,
    "dashes": "-" * MAX_QUERY_CHARS,
    "spaced dashes": "- " * (MAX_QUERY_CHARS // 2),
    "exclusions": "-a " * (MAX_QUERY_CHARS // 3),
    "alternatives": "a OR " * (MAX_QUERY_CHARS // 5),
    "identifiers": " ".join(f"ERR-{n}" for n in range(3000)),
    "one compound": "a-" * (MAX_QUERY_CHARS // 2),
    "one path": "/x" * (MAX_QUERY_CHARS // 2),
    "many words": " ".join(f"w{n}" for n in range(4000)),
    "unsplit script": "部署方案" * (MAX_QUERY_CHARS // 4),
    "100,000 characters": "gateway " * 12_500,
    "600 KB": " ".join(f"w{n}" for n in range(90_000)),
}


@pytest.mark.parametrize("name", QUERIES)
def test_any_query_is_answered(ana: Memories, name: str) -> None:
    ana.remember("the gateway restarts nightly", id="m", kind="document")
    began = time.monotonic()
    recall = ana.recall(QUERIES[name])
    assert [hit.id for hit in recall.hits] in ([], ["m"])
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("name", QUERIES)
def test_any_query_is_answered_in_plain_sql(application: str, name: str) -> None:
    text = QUERIES[name].replace("\x00", "").encode("utf-8", "ignore").decode()
    with scoped(application, "acme", "ana") as connection:
        connection.execute("SET LOCAL statement_timeout = '10s'")
        for queries in ([text], [text, "gateway", text]):
            assert connection.execute("SELECT count(*) FROM recall(%s)", [queries]).fetchone() == (0,)


@pytest.mark.parametrize(
    "text", ["a OR " * 120_000, "-a " * 200_000, " ".join(f"ERR-{n}" for n in range(60_000)), '"a" ' * 150_000]
)
def test_six_hundred_kilobytes_in_plain_sql_are_cut(application: str, text: str) -> None:
    with scoped(application, "acme", "ana") as connection:
        connection.execute("SET LOCAL statement_timeout = '10s'")
        assert connection.execute("SELECT count(*) FROM recall(ARRAY[%s])", [text]).fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM explain_words(ARRAY[%s])", [text]) is not None
        assert connection.execute("SELECT count(*) FROM explain_legs(ARRAY[%s], NULL, 10, NULL)", [text]) is not None


def test_a_query_that_is_cut_says_so(ana: Memories) -> None:
    ana.remember("the gateway restarts", id="m")
    recall = ana.recall("x " * 50_000 + "gateway")
    assert recall.degraded == f"a query of 100,007 characters was cut to {MAX_QUERY_CHARS:,}"
    assert len(recall.queries[0]) == MAX_QUERY_CHARS
    assert set(recall.hits[0].legs) == {"vector"}
    assert ana.recall("x" * MAX_QUERY_CHARS).degraded is None


def test_what_no_text_can_hold_is_taken_out_of_a_query(ana: Memories) -> None:
    ana.remember("the gateway restarts", id="m")
    for query in ("gate\x00way", "gate\ud800way", "\udfffgateway"):
        assert "exact" in ana.recall(query).hits[0].legs


def test_hostile_queries_find_what_they_name(ana: Memories) -> None:
    ana.remember("our password policies: it's b or c, then d and e", id="m", kind="document")
    for query in (
        "What's your password policies?",
        "a & b | !c:* (d) <-> 'e'",
        "policies'; --",
        "password%",
        '"password policies',
    ):
        hit = ana.recall(query).hits[0]
        assert {"exact", "relaxed"} & set(hit.legs)


def test_eight_long_queries_are_answered(ana: Memories) -> None:
    ana.remember("the gateway restarts", id="m")
    queries = [" ".join(f"w{n}x{q}" for n in range(3000)) for q in range(7)]
    assert [set(hit.legs) for hit in ana.recall([*queries, "gateway"]).hits] == [{"vector", "exact", "relaxed"}]


@few_examples
@given(text=st.text(max_size=400))
def test_no_text_makes_a_search_fail(open_store: MemoryStore, text: str) -> None:
    view = open_store.as_user("arbitrary queries", "ana")
    if not view.list(limit=1):
        view.remember("the gateway restarts nightly", id="m")
    assert len(view.recall(text).hits) <= 1
    assert len(view.recall([text, text[::-1]], filter={"k": {"$exists": False}}).hits) <= 1


@few_examples
@given(
    text=st.text(
        st.one_of(
            st.sampled_from("\"'()-:&|!<>*\\%_@#/.,~+=?[]{}$ \t\n"), st.sampled_from("aZ9本ไ서é\u0301\U0001f642")
        ),
        max_size=300,
    )
)
def test_no_punctuation_makes_a_search_fail(open_store: MemoryStore, text: str) -> None:
    view = open_store.as_user("arbitrary queries", "ana")
    if not view.list(limit=1):
        view.remember("the gateway restarts nightly", id="m")
    assert len(view.recall(text).hits) <= 1
