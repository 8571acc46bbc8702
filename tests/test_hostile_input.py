"""Odd, large and wrong input through every public call: a clear error that names the value, or the documented result."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lore_retriever import InvalidInput, LoreError, Memories, MemoryStore, NewMemory, NotFound, ScopeMissing
from lore_retriever.limits import MAX_CONTENT_CHARS
from lore_retriever.testing import HashEmbedder
from support import as_application, kept_database, opened

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


# --- contents: stored byte for byte, or refused by name and place ---


@few_examples
@given(content=st.text(st.characters(exclude_categories=["Cs"]), max_size=3000))
def test_a_content_comes_back_as_it_was_or_is_refused(open_store: MemoryStore, content: str) -> None:
    view = open_store.as_user("arbitrary contents", "ana")
    if "\x00" in content or not content.strip():
        with pytest.raises(InvalidInput, match=r"item 0"):
            view.remember(content)
        return
    memory_id = view.remember(content, kind="document")
    memory = view.get(memory_id)
    assert (memory.content, memory.full_length) == (content, len(content))
    found = [hit for hit in view.recall(content[:200], limit=1000).hits if hit.id == memory_id]
    assert found == [] or content[slice(*found[0].span)] == found[0].text
    view.forget(memory_id)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is '': it holds nothing"),
        (" \n\u3000\t", "it holds nothing"),
        ("ab\x00c", r"NUL character \('\\x00'\) at position 2"),
        ("abc\ud800", r"lone surrogate \('\\ud800'\) at position 3"),
        ("x" * (MAX_CONTENT_CHARS + 1), "has 2,000,001 characters, the most is 2,000,000"),
    ],
)
def test_a_content_that_cannot_be_stored_is_named_with_its_place(ana: Memories, content: str, said: str) -> None:
    ana.remember("before", id="m")
    attempts: list[Callable[[], Any]] = [
        lambda: ana.remember(content),
        lambda: ana.remember_many([NewMemory(content="good"), NewMemory(content=content)]),
        lambda: ana.update("m", content=content),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput, match=said):
            attempt()
    assert [memory.content for memory in ana.list()] == ["before"]


@pytest.mark.parametrize("value", [None, 5, 1.5, b"bytes", ["list"], {"a": 1}])
def test_a_content_of_another_type_is_refused(ana: Memories, value: Any) -> None:
    ana.remember("before", id="m")
    for attempt in (lambda: ana.remember(value), lambda: ana.update("m", content=value)):
        with pytest.raises(InvalidInput, match="content is"):
            attempt()


def test_two_megabytes_of_unique_tokens_are_stored_searched_and_read_in_seconds(ana: Memories) -> None:
    source = random.Random(38)
    content = " ".join(f"{source.getrandbits(64):016x}" for _ in range(MAX_CONTENT_CHARS // 17))
    began = time.monotonic()
    ana.remember_many([NewMemory(content=content, id="huge")], embed=False)
    stored = time.monotonic()
    hit = ana.recall(content[17 * 20_000 :][:16]).hits[0]
    found = time.monotonic()
    assert (hit.id, hit.truncated, hit.full_length) == ("huge", True, len(content))
    assert hit.text == content[slice(*hit.span)]
    assert content[17 * 20_000 :][:16] in hit.text
    assert ana.get("huge").content == content
    assert stored - began < 60
    assert found - stored < 10


# --- ids and names ---

IDS = [
    'o\'brien "x"; DROP TABLE memories; --',
    "\\",
    "%",
    "a/b?c=d#e",
    "\u202eid",
    "本" * 512,
    "\U0001f642" * 512,
    "i" * 512,
    "$1",
    "null",
    " spaced ",
]


@pytest.mark.parametrize("memory_id", IDS)
def test_an_id_is_any_text_of_up_to_512_characters(ana: Memories, memory_id: str) -> None:
    assert ana.remember("the walrus", id=memory_id) == memory_id
    assert ana.get(memory_id).id == memory_id
    ana.update(memory_id, pinned=True)
    assert [memory.id for memory in ana.list(pinned=True)] == [memory_id]
    assert [hit.id for hit in ana.recall("walrus", filter={"lore_id": memory_id}).hits] == [memory_id]
    assert ana.list(after=memory_id) == []
    ana.invalidate(memory_id)
    ana.restore(memory_id)
    ana.forget(memory_id)
    with pytest.raises(NotFound):
        ana.get(memory_id)


@pytest.mark.parametrize("memory_id", ["", "  ", "i" * 513, "a\x00b", "\ud800", 5, b"id", ["id"]])
def test_an_id_that_cannot_be_one_is_refused_everywhere(ana: Memories, memory_id: Any) -> None:
    calls: list[Call] = [
        lambda i: ana.remember("x", id=i),
        ana.get,
        lambda i: ana.update(i, pinned=True),
        ana.invalidate,
        lambda i: ana.invalidate("m", superseded_by=i),
        ana.restore,
        ana.forget,
        lambda i: ana.forget_many(["m", i]),
        lambda i: ana.list(after=i),
        lambda i: ana.feedback(i, useful=True),
    ]
    ana.remember("x", id="m")
    for call in calls:
        with pytest.raises(InvalidInput, match="id"):
            call(memory_id)
    with pytest.raises(InvalidInput):
        ana.get(None)  # type: ignore[arg-type]
    assert [memory.id for memory in ana.list()] == ["m"]


NAMES = {
    "kind": "kind",
    "agent": "agent",
    "session": "session",
    "source": "source",
    "trust": "trust",
    "language": "language",
}


@pytest.mark.parametrize("field", NAMES)
def test_a_name_is_text_of_up_to_512_characters(ana: Memories, field: str) -> None:
    for value in ("n" * 512, "o'brien \"\\ %", "本地"):
        ana.remember("x", id="m", **{field: value})
        assert getattr(ana.get("m"), field) == value
    for value in ("", " ", "n" * 513, "a\x00", "\ud800", 5):
        with pytest.raises(InvalidInput, match=field):
            ana.remember("x", id="m", **{field: value})
        with pytest.raises(InvalidInput, match=field):
            ana.update("m", **{field: value})
    assert getattr(ana.get("m"), field) == "本地"


def test_names_too_long_together_are_one_clear_error(open_store: MemoryStore) -> None:
    source = random.Random(7)

    def name(chars: int) -> str:
        return "".join(chr(source.randrange(0x4E00, 0x9FFF)) for _ in range(chars))

    view = open_store.as_user(name(200), name(200))
    with pytest.raises(InvalidInput, match=r"too long for the database.*Shorten it"):
        view.remember("x", id=name(512))
    assert view.remember("x", id="short") == "short"


@pytest.mark.parametrize("aliases", ["abc", ("",), ("a\x00",), ("a" * 513,), (5,), {"a": 1}, 5])
def test_aliases_that_cannot_be_names_are_refused(ana: Memories, aliases: Any) -> None:
    with pytest.raises(InvalidInput, match="alias"):
        ana.remember("x", aliases=aliases)


@pytest.mark.parametrize(
    ("org", "user", "error"),
    [
        ("", "ana", ScopeMissing),
        ("acme", "   ", ScopeMissing),
        (None, "ana", ScopeMissing),
        (5, "ana", InvalidInput),
        ("acme", b"ana", InvalidInput),
        ("a\x00b", "ana", InvalidInput),
        ("acme", "\ud800", InvalidInput),
        ("a" * 513, "ana", InvalidInput),
    ],
)
def test_a_scope_that_cannot_be_set_is_refused(
    open_store: MemoryStore, org: Any, user: Any, error: type[LoreError]
) -> None:
    with pytest.raises(error, match=r"org|user"):
        open_store.as_user(org, user)


@pytest.mark.parametrize("org", ["o'brien", '"; --', "本地", "\U0001f642", "a" * 512, "%s", "{}", "null", "''"])
def test_a_scope_has_any_name(open_store: MemoryStore, org: str) -> None:
    view = open_store.as_user(org, org)
    view.remember("walrus", id="m")
    assert [hit.owner for hit in view.recall("walrus").hits] == [org]
    assert open_store.as_user(org + "x" if len(org) < 512 else "other", org).list() == []


# --- metadata ---


def nested(levels: int) -> Any:
    value: Any = "leaf"
    for _ in range(levels):
        value = [value]
    return value


GOOD_METADATA: list[dict[str, Any]] = [
    {},
    {"": "empty key", " ": "blank", "k'\"\\": "quotes", "$and": "an operator", "本": None},
    {"deep": nested(30)},
    {"big": 10**399, "negative": -(10**399), "float": 1.5e10, "tiny": 5e-324, "zero": -0.0, "one": 1.0},
    {"text": "\u202e\U0001f642\t\n" * 100, "long": "x" * 200_000},
    {"mixed": [1, "1", True, None, {"a": []}, [[]]]},
]


@pytest.mark.parametrize("metadata", GOOD_METADATA, ids=range(len(GOOD_METADATA)))
def test_metadata_comes_back_equal(ana: Memories, metadata: dict[str, Any]) -> None:
    ana.remember("walrus", id="m", metadata=metadata)
    assert ana.get("m").metadata == metadata
    assert ana.recall("walrus").hits[0].metadata == metadata
    assert ana.list()[0].metadata == metadata


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE
BAD_METADATA: list[tuple[Any, str]] = [
    ({"a": math.nan}, r"\['a'\] is nan"),
    ({"a": [1, math.inf]}, r"\['a'\]\[1\] is inf"),
    ({"a": "x\x00"}, r"\['a'\] holds a NUL.*position 1"),
    ({"a": {"b": "\udfff"}}, r"\['a'\]\['b'\] holds a lone surrogate"),
    ({"a\x00": 1}, "a key of metadata .*NUL"),
    ({1: "x"}, "metadata"),
    ({"a": b"bytes"}, "of type bytes"),
    ({"a": Decimal(1)}, "of type Decimal"),
    ({"a": object()}, "of type object"),
    ({"a": 10**5000}, "integer of more than 400 digits"),
    ({"lore_kind": "x"}, "'lore_kind'.*reserved"),
    ({"a": nested(60)}, "deeper than 32 levels"),
    ({"a": nested(3000)}, "deeper than 32 levels"),
    (CYCLE, "deeper than 32 levels"),
    ({"a": "x" * 262_145}, "262,145 characters"),
    ({str(n): n for n in range(50_000)}, "characters as JSON, the most is 262,144"),
    ([1], "metadata is"),
    ("text", "metadata is"),
    (None, "metadata is"),
]


@pytest.mark.parametrize(("metadata", "said"), BAD_METADATA, ids=range(len(BAD_METADATA)))
def test_metadata_that_is_no_json_object_is_named(ana: Memories, metadata: Any, said: str) -> None:
    ana.remember("x", id="m", metadata={"keep": 1})
    for attempt in (
        lambda: ana.remember("x", metadata=metadata),
        lambda: ana.update("m", metadata=metadata),
    ):
        with pytest.raises(InvalidInput, match=said):
            attempt()
    assert [memory.metadata for memory in ana.list()] == [{"keep": 1}]


# --- times, numbers, flags ---

FAR = [
    datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
    datetime.min,
    datetime.max,
]


@pytest.mark.parametrize("moment", [*FAR, "yesterday", "2026-13-01", b"2026", 1.5j], ids=str)
def test_a_time_that_some_reader_could_not_hold_is_refused(ana: Memories, moment: Any) -> None:
    ana.remember("x", id="m")
    for attempt in (
        lambda: ana.remember("x", created_at=moment),
        lambda: ana.remember("x", expires_at=moment),
        lambda: ana.update("m", created_at=moment),
        lambda: ana.recall("x", as_of=moment),
    ):
        with pytest.raises(InvalidInput, match=r"created_at|expires_at|as_of"):
            attempt()
    assert [memory.id for memory in ana.list()] == ["m"]


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Niue", "Asia/Kathmandu"])
def test_the_first_and_the_last_day_are_read_in_every_time_zone(application: str, zone: str) -> None:
    with opened("sync", application, connect_options={"options": f"-c TimeZone={zone}"}) as store:
        ana = store.as_user(f"zone {zone}", "ana")
        first, last = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
        ana.remember("walrus", id="first", created_at=first)
        ana.remember("walrus", id="last", created_at=last, expires_at=last)
        assert {memory.id: memory.created_at for memory in ana.list()} == {"first": first, "last": last}
        assert {hit.id for hit in ana.recall("walrus").hits} == {"first", "last"}
        assert ana.recall("walrus", as_of=last).hits[0].id == "first"


def test_a_naive_time_is_read_as_utc(ana: Memories) -> None:
    ana.remember("x", id="m", created_at=datetime(2026, 1, 1, 12))
    assert ana.get("m").created_at == datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("limit", [0, -1, 1001, 10**30, 2.0, math.nan, True, "3", None, [1]])
def test_a_limit_that_is_no_number_of_rows_is_refused(ana: Memories, limit: Any) -> None:
    for attempt in (
        lambda: ana.recall("x", limit=limit),
        lambda: ana.list(limit=limit),
        lambda: ana.explain("x", limit=limit),
    ):
        with pytest.raises(InvalidInput, match="limit is"):
            attempt()


WRONG_ARGUMENTS: dict[str, tuple[Call, str]] = {
    "no query": (lambda ana: ana.recall([]), "0 queries"),
    "nine queries": (lambda ana: ana.recall(["x"] * 9), "9 queries"),
    "None as query": (lambda ana: ana.recall(None), "the query is None"),
    "number as query": (lambda ana: ana.recall(5), "the query is 5"),
    "bytes as query": (lambda ana: ana.recall(b"x"), "the query is b'x'"),
    "mapping as query": (lambda ana: ana.recall({"a": 1}), "the query is"),
    "None among queries": (lambda ana: ana.recall(["x", None]), "a query is None"),
    "number as kinds": (lambda ana: ana.recall("x", kinds=5), "kinds is 5"),
    "text as kinds": (lambda ana: ana.recall("x", kinds="fact"), "kinds is 'fact'"),
    "number among kinds": (lambda ana: ana.recall("x", kinds=[5]), "a kind is 5"),
    "None among kinds": (lambda ana: ana.recall("x", kinds=[None]), "a kind is None"),
    "list as filter": (lambda ana: ana.recall("x", filter=[("team", "infra")]), "filter is"),
    "text as filter": (lambda ana: ana.recall("x", filter="team = infra"), "filter is"),
    "text as filter of a list": (lambda ana: ana.list(filter="x"), "filter is"),
    "unknown operator": (lambda ana: ana.recall("x", filter={"k": {"$regex": "x"}}), r"\$regex"),
    "unknown system field": (lambda ana: ana.recall("x", filter={"lore_secret": 1}), "lore_secret"),
    "None as batch": (lambda ana: ana.remember_many(None), "memories is None"),
    "text as batch": (lambda ana: ana.remember_many("abc"), "memories is 'abc'"),
    "one memory as batch": (lambda ana: ana.remember_many(NewMemory(content="x")), "item 0"),
    "dict in a batch": (lambda ana: ana.remember_many([{"content": "x"}]), "item 0 is"),
    "unknown on_error": (lambda ana: ana.remember_many([], on_error="ignore"), "on_error is 'ignore'"),
    "text as ids": (lambda ana: ana.forget_many("mno"), "ids is 'mno'"),
    "None as ids": (lambda ana: ana.forget_many(None), "ids is None"),
    "text as flag": (lambda ana: ana.list(pinned="maybe"), "pinned is 'maybe'"),
    "text as pinned": (lambda ana: ana.remember("x", pinned="maybe"), "pinned is 'maybe'"),
    "number as kind": (lambda ana: ana.list(kind=5), "kind is 5"),
    "text as version": (lambda ana: ana.update("m", version="1", pinned=True), "version is '1'"),
    "large version": (lambda ana: ana.update("m", version=2**40, pinned=True), "version is"),
    "unknown field": (lambda ana: ana.remember("x", colour="red"), "colour is 'red'"),
    "unknown change": (lambda ana: ana.update("m", colour="red"), "colour is 'red'"),
    "unknown visibility": (lambda ana: ana.remember("x", visibility="public"), "visibility is 'public'"),
    "no visibility": (lambda ana: ana.update("m", visibility=None), "visibility is None"),
    "text as vote": (lambda ana: ana.feedback("m", useful="yes"), "useful is 'yes'"),
}


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_a_wrong_argument_is_named(ana: Memories, name: str) -> None:
    call, said = WRONG_ARGUMENTS[name]
    ana.remember("x", id="m")
    with pytest.raises(InvalidInput, match=said):
        call(ana)
    assert [memory.version for memory in ana.list()] == [1]


def test_a_page_after_an_unknown_id_is_an_error_and_not_the_end(ana: Memories) -> None:
    ana.remember("x", id="m")
    assert ana.list(after="m") == []
    with pytest.raises(NotFound, match="'gone' is visible here"):
        ana.list(after="gone")


# --- batches ---


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_batch_is_stored_whole_or_not_at_all_or_reports_each_refusal(application: str, kind: str) -> None:
    bad = {3: "a\x00b", 50: "", 99: "\ud800"}

    def batch() -> Iterator[NewMemory]:
        return (NewMemory(content=bad.get(n, f"walrus {n}"), id=f"m{n}") for n in range(100))

    with opened(kind, application) as store:
        ana = store.as_user(f"batch {kind}", "ana")
        with pytest.raises(InvalidInput, match=r"item 3 \('m3'\) holds a NUL"):
            ana.remember_many(batch())
        assert ana.list() == []
        stored = ana.remember_many(batch(), on_error="skip")
        assert len(stored) == 97
        assert [number for number, _ in stored.refused] == [3, 50, 99]
        assert len(ana.list(limit=1000)) == 97


def test_a_generator_that_fails_stores_nothing(ana: Memories) -> None:
    def broken() -> Iterator[NewMemory]:
        yield NewMemory(content="walrus", id="m")
        raise RuntimeError("the source went away")

    with pytest.raises(RuntimeError, match="went away"):
        ana.remember_many(broken())
    assert ana.list() == []


def test_the_last_of_many_with_one_id_wins(ana: Memories) -> None:
    stored = ana.remember_many(NewMemory(content=f"walrus {n}", id="m", metadata={"n": n}) for n in range(50))
    assert stored == ["m"]
    memory = ana.get("m")
    assert (memory.content, memory.metadata, memory.version) == ("walrus 49", {"n": 49}, 1)
    assert [hit.text for hit in ana.recall("walrus").hits] == ["walrus 49"]
