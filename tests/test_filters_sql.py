"""The SQL of `allowed_keys` gives the answers of `filters.evaluate`, and never lets a value become SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from itertools import count, product
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from lore_retriever.errors import InvalidInput
from lore_retriever.filters import (
    MAX_FILTER_DEPTH,
    MAX_FILTER_NODES,
    MAX_FILTER_VALUES,
    MAX_PATTERN_CHARS,
    OPERATORS,
    SYSTEM_FIELDS,
    evaluate,
    parse_filter,
    to_json,
)

Json = dict[str, Any]
Search = Callable[..., set[str]]
ScopeConnection = Callable[[str, str], AbstractContextManager[psycopg.Connection[Any]]]

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
MISSING = object()
SCALARS: list[Any] = [
    *(None, True, False, 0, 1, 1.0, -3, 9, 10, 0.1, 1e22, 10**22, 2**53 + 1),
    *("", "1", "9", "10", "a", "A", "b", "abc", "a_c", "a%c", "a\\c", "aBc\nd", "null", "true", "[]"),
    *(
        "Ä",
        "ä",
        "ΑΣ",
        "ας",
        "İ",
        "本地部署",
        "🚀",
        "\uffff",
        "O'Brien",
        "12:30 :x",
        "' OR 1=1 --",
        "2026-01-05",
    ),
]
STORED: list[Any] = [
    *(MISSING, *SCALARS),
    *(
        [],
        [1],
        [1.0, 2],
        ["a"],
        ["a", "b"],
        ["A", 1, "1", True, None],
        [["a"]],
        [[]],
        [{"a": 1}],
        ["abc", ""],
    ),
    *({}, {"a": 1}, {"k": "a"}),
]
OPERANDS: list[Any] = [
    *(
        None,
        True,
        False,
        1,
        9,
        0.1,
        10**22,
        "",
        "1",
        "a",
        "ä",
        "abc",
        "A%",
        "_",
        "a\\_c",
        "a\\",
        "a\\\\",
        "ΑΣ",
    ),
    *([], [1], ["a"], ["a", "b"], ["a", "b", "abc"], [9, 10], [10, 9], ["a", 1], [None, True], [True, False]),
    *({}, {"a": 1}, [["a"]], ["2125-12-08", "2125-12-09T00:00Z"], "2125-12-08", "2125-02-30", "now"),
    *("2125-12-08T24:00", "2125-12-08T01:00+16", "2125-12-07T22:00:00.000000-02", "2125-12-08 00:00:00,5"),
]
TEXTS = [None, "", "fact", "decision", "Ana", "a_b", "ÄÖ"]


def memory(i: int) -> tuple[Json, Json]:
    """The i-th memory's own fields and its metadata; every stored value stands under `k`, and under `j`."""
    fields = {
        "id": f"m{i}",
        "kind": TEXTS[2 + i % 5],
        "visibility": ("private", "shared")[i % 2],
        "owner": ("ana", "ana", "bob")[i % 3] if i % 2 else "ana",
        "agent": TEXTS[i % 7],
        "session": TEXTS[(i + 3) % 7],
        "source": TEXTS[(i + 5) % 7],
        "trust": TEXTS[i % 2],
        "language": (None, "en", "de")[i % 3],
        "pinned": i % 4 == 0,
        "created_at": EPOCH + timedelta(days=i % 9, microseconds=i % 2),
        "updated_at": EPOCH + timedelta(days=i % 11),
        "expires_at": EPOCH + timedelta(days=36500 + i % 3) if i % 3 else None,
    }
    stored = {"k": STORED[i % len(STORED)], "j": STORED[(i * 7 + 3) % len(STORED)], "a.b": i % 3}
    return fields, {key: value for key, value in stored.items() if value is not MISSING}


MEMORIES = [memory(i) for i in range(len(STORED) + 6)]
COLUMNS = tuple(MEMORIES[0][0])


@pytest.fixture
def search(admin_connection: psycopg.Connection[Any], scope_connection: ScopeConnection) -> Iterator[Search]:
    """Ids that `allowed_keys` lets through for ana of acme, in one transaction."""
    insert = (
        f"INSERT INTO memories (org, content, metadata, {', '.join(COLUMNS)})"  # noqa: S608 (constants)
        f" VALUES ('acme', 'x', %s, {', '.join(['%s'] * len(COLUMNS))})"
    )
    with admin_connection.cursor() as cursor:
        cursor.executemany(insert, [[Jsonb(meta), *fields.values()] for fields, meta in MEMORIES])
    with scope_connection("acme", "ana") as connection:

        def search(asked: Json | None, kinds: list[str] | None = None, as_of: Any = None) -> set[str]:
            with connection.transaction():
                rows = connection.execute(
                    "SELECT id FROM memories WHERE key = ANY ((SELECT allowed_keys(%s, %s, %s))::bigint[])",
                    (None if asked is None else Jsonb(asked), kinds, as_of),
                )
                return {row[0] for row in rows}

        yield search


def expected(asked: Json) -> set[str]:
    tree = parse_filter(asked)
    return {fields["id"] for fields, meta in MEMORIES if evaluate(tree, fields, meta)}


times = st.sampled_from(
    ["2026-01-05", "2026-01-05T00:00:00.000001Z", "2026-01-05 01:00+01", "2026-01-03T12:00-05:30", None]
)
scalars = st.sampled_from(SCALARS)
texts = st.sampled_from([value for value in SCALARS if isinstance(value, str)])
patterns = st.sampled_from(
    ["%", "_", "a%", "%c", "a\\%c", "a_c", "a\\_c", "A%", "ä", "%ς", "Ä%", "i", "\\\\", "a\\\\c"]
)


def operands(kind: str, operator: str) -> st.SearchStrategy[Any]:
    """Operands that the operator takes on a field of this type."""
    one = {
        "json": scalars,
        "text": st.sampled_from([*TEXTS, "m1", "ana", "shared"]),
        "boolean": st.sampled_from([True, False, None]),
        "time": times,
    }[kind]
    some = one.filter(lambda value: value is not None and not isinstance(value, bool))
    match operator:
        case "$exists" | "$is_empty":
            return st.booleans()
        case "$like" | "$ilike":
            return patterns | texts.filter(lambda text: not text.endswith("\\"))
        case "$text_match" | "$text_match_insensitive":
            return texts
        case "$lt" | "$lte" | "$gt" | "$gte":
            return some
        case "$between":
            return st.lists(some, min_size=2, max_size=2).filter(
                lambda pair: isinstance(pair[0], str) == isinstance(pair[1], str)
            )
        case "$in" | "$nin":
            return st.lists(one, max_size=4)
        case "$any" | "$all":
            return st.lists(some if kind == "text" else one, max_size=3)
        case "$contains":
            return some if kind == "text" else one
        case _:
            return one | st.lists(one, max_size=2) if kind == "json" else one


def conditions() -> st.SearchStrategy[Json]:
    def build(key: str) -> st.SearchStrategy[Json]:
        kind = SYSTEM_FIELDS.get(key, "json")
        known = {"boolean": OPERATORS[:2] + OPERATORS[7:11], "time": OPERATORS[:11]}.get(kind, OPERATORS)
        return st.sampled_from(known).flatmap(
            lambda operator: operands(kind, operator).map(lambda operand: {key: {operator: operand}})
        )

    return st.sampled_from(["k", "k", "k", "j", "absent", "a.b", *SYSTEM_FIELDS]).flatmap(build)


def filters() -> st.SearchStrategy[Json]:
    return st.recursive(
        conditions(),
        lambda inner: (
            st.lists(inner, max_size=3).map(lambda parts: {"$and": parts})
            | st.lists(inner, max_size=3).map(lambda parts: {"$or": parts})
            | inner.map(lambda part: {"$not": part})
            | st.lists(inner, max_size=3).map(lambda parts: {"$not": parts})
            | st.tuples(inner, inner).map(lambda pair: {**pair[0], **pair[1]})
        ),
        max_leaves=6,
    )


junk = st.recursive(
    scalars | times | st.sampled_from(["a\\", 3.5, "2026-02-30", "2026-01-05T24:00", "now", "infinity"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
names = st.sampled_from(["k", *SYSTEM_FIELDS, *OPERATORS, "$and", "$or", "$not", "$where", "lore_score", "$AND", ""])
anything = st.recursive(
    junk,
    lambda inner: st.dictionaries(names, inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=6,
)

whole_table = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


@whole_table
@given(asked=filters())
def test_sql_and_python_agree_on_every_filter(search: Search, asked: Json) -> None:
    wanted = expected(asked)
    assert search(asked) == wanted
    assert search(to_json(parse_filter(asked))) == wanted


@pytest.mark.parametrize("key", ["k", "lore_agent", "lore_pinned", "lore_expires_at"])
def test_sql_and_python_agree_on_every_operator_and_operand(search: Search, key: str) -> None:
    for operator, operand in product(OPERATORS, OPERANDS):
        agree(search, {key: {operator: operand}})


def agree(search: Search, asked: Json) -> None:
    """Both sides give the same answer, or both refuse."""
    try:
        wanted = expected(asked)
    except InvalidInput:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="filter"):
            search(asked)
    else:
        assert search(asked) == wanted, asked


@whole_table
@given(asked=st.dictionaries(names, anything, max_size=2))
def test_sql_refuses_what_python_refuses(search: Search, asked: Json) -> None:
    agree(search, asked)


def nested(levels: int) -> Json:
    asked: Json = {"k": 1}
    for _ in range(levels - 1):
        asked = {"$not": asked}
    return asked


@pytest.mark.parametrize(
    ("fits", "outgrown"),
    [
        (nested(MAX_FILTER_DEPTH), nested(MAX_FILTER_DEPTH + 1)),
        (
            {"$and": [{"k": {"$ne": i}} for i in range(MAX_FILTER_NODES - 1)]},
            {"$and": [{"k": {"$ne": i}} for i in range(MAX_FILTER_NODES)]},
        ),
        (
            {"k": {"$in": ["a"] * MAX_FILTER_VALUES}},
            {"k": {"$in": ["a"] * (MAX_FILTER_VALUES + 1)}},
        ),
    ],
    ids=["depth", "nodes", "values"],
)
def test_limits_are_the_same_on_both_sides(search: Search, fits: Json, outgrown: Json) -> None:
    assert search(fits) == expected(fits)
    with pytest.raises(InvalidInput, match="more than"):
        parse_filter(outgrown)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="more than"):
        search(outgrown)


def test_a_very_deep_filter_is_one_clear_error(search: Search, admin_connection: psycopg.Connection[Any]) -> None:
    text = '{"$not":' * 3000 + '{"k": 1}' + "}" * 3000
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="more than 16 levels"):
        admin_connection.execute("SELECT allowed_keys(%s::jsonb)", (text,))


def test_a_pattern_that_would_exhaust_the_stack_is_refused(search: Search) -> None:
    assert search({"k": {"$like": "%" * MAX_PATTERN_CHARS}}) == search({"k": {"$like": "%"}})
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="at most 1000 characters"):
        search({"k": {"$like": "%" * (MAX_PATTERN_CHARS + 1)}})


HOSTILE = [
    "author' = 'x' OR '1'='1' --",
    "x') OR 1=1 --",
    "k' IS NOT NULL OR 'a'='a",
    "($1)[1]",
    "%s",
    "%1$s",
    "{}",
    "m.key",
    "k\") = 'x' OR true --",
    "q$q$ OR true --",
    "/*",
    "a\\b",
    "😈",
    "'; DROP TABLE memories; --",
    "12:30 :x",
    "O'Brien",
]


def test_hostile_keys_and_values_stay_values(search: Search, admin_connection: psycopg.Connection[Any]) -> None:
    for i, text in enumerate(HOSTILE):
        for operator, operand in (
            ("$eq", "x"),
            ("$gt", "x"),
            ("$like", "x%"),
            ("$any", ["x"]),
            ("$exists", True),
        ):
            assert search({text: {operator: operand}}) == set(), text
        for key in ("k", "lore_kind", "lore_agent"):
            for operator in ("$eq", "$contains", "$text_match_insensitive", "$in", "$all", "$gte"):
                asked = {key: {operator: [text] if operator in ("$in", "$all") else text}}
                assert search(asked) == expected(asked), asked
        admin_connection.execute(
            "INSERT INTO memories (org, owner, id, content, metadata) VALUES ('acme', 'ana', %s, 'x', %s)",
            (f"hostile{i}", Jsonb({text: text})),
        )
        assert search({text: text}) == {f"hostile{i}"}
        admin_connection.execute("DELETE FROM memories WHERE id = %s", (f"hostile{i}",))


def test_the_compiled_condition_holds_no_word_of_the_caller(search_text: Callable[[Json], str]) -> None:
    marks = count(1)

    def mark() -> str:
        return f"zq{next(marks)}"

    asked = {
        "$or": [
            *({mark(): {operator: mark()}} for operator in ("$eq", "$gt", "$like", "$ilike", "$contains")),
            *({mark(): {operator: [mark(), mark()]}} for operator in ("$in", "$nin", "$any", "$all", "$between")),
            {mark(): {"$exists": False}},
            {"lore_kind": mark()},
            {"lore_agent": {"$in": [mark(), None]}},
            {"lore_created_at": {"$gte": "2031-07-09"}},
        ]
    }
    condition = search_text(asked)
    assert "zq" not in condition
    assert "2031" not in condition


@pytest.fixture
def search_text(scope_connection: ScopeConnection) -> Iterator[Callable[[Json], str]]:
    """The WHERE text that a filter is compiled to."""
    with scope_connection("acme", "ana") as connection:

        def compiled(asked: Json) -> str:
            row = connection.execute("SELECT (compile_filter(%s)).condition", (Jsonb(asked),)).fetchone()
            assert row is not None
            return str(row[0])

        yield compiled


def test_no_filter_lets_every_visible_live_memory_through(search: Search) -> None:
    every = {fields["id"] for fields, _ in MEMORIES}
    assert search(None) == search({}) == every
    assert search(None, kinds=["fact", "decision"]) == {
        fields["id"] for fields, _ in MEMORIES if fields["kind"] in ("fact", "decision")
    }
    assert search({"k": 1}, kinds=[]) == set()


def test_a_filter_never_shows_another_users_or_organisations_memories(
    search: Search, admin_connection: psycopg.Connection[Any], scope_connection: ScopeConnection
) -> None:
    admin_connection.execute(
        """
        INSERT INTO memories (org, owner, visibility, id, content, metadata) VALUES
            ('acme', 'bob', 'private', 'bob1', 'x', '{"t": 1}'),
            ('acme', 'bob', 'shared', 'bob2', 'x', '{"t": 1}'),
            ('other', 'ana', 'shared', 'other1', 'x', '{"t": 1}')
        """
    )
    everything = {"$or": [{"t": 1}, {"$not": {"t": 1}}, {"lore_owner": {"$in": ["bob", "ana"]}}]}
    assert search({"t": 1}) == {"bob2"}
    assert search(everything) & {"bob1", "other1"} == set()
    with scope_connection("", "") as connection:
        row = connection.execute("SELECT allowed_keys(%s)", (Jsonb(everything),)).fetchone()
        assert row == ([],)


def test_as_of_brings_back_what_was_live_then(search: Search, admin_connection: psycopg.Connection[Any]) -> None:
    admin_connection.execute(
        """
        INSERT INTO memories
            (org, owner, id, content, metadata, created_at, invalidated_at, expires_at)
        VALUES
            ('acme', 'ana', 'invalidated', 'x', '{"t": 1}', '2020-01-01Z', '2020-03-01Z', NULL),
            ('acme', 'ana', 'expired', 'x', '{"t": 1}', '2020-01-01Z', NULL, '2020-02-01Z'),
            ('acme', 'ana', 'live', 'x', '{"t": 1}', '2020-01-15Z', NULL, NULL)
        """
    )
    assert search({"t": 1}) == {"live"}
    assert search({"t": 1}, as_of=datetime(2019, 12, 31, tzinfo=UTC)) == set()
    assert search({"t": 1}, as_of=datetime(2020, 1, 2, tzinfo=UTC)) == {"invalidated", "expired"}
    assert search({"t": 1}, as_of=datetime(2020, 2, 1, tzinfo=UTC)) == {"invalidated", "live"}
    assert search({"t": 1}, as_of=datetime(2020, 3, 1, tzinfo=UTC)) == {"live"}


@pytest.mark.parametrize("time_zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_dates_without_offset_are_utc_in_every_session(
    admin_connection: psycopg.Connection[Any], time_zone: str
) -> None:
    with admin_connection.transaction():
        admin_connection.execute("SELECT set_config('timezone', %s, true)", (time_zone,))
        row = admin_connection.execute(
            "SELECT filter_time('2026-01-05T12:00') = '2026-01-05T12:00Z'::timestamptz"
        ).fetchone()
    assert row == (True,)
