"""What filters mean, in both dialects, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from enum import Enum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore_retriever.errors import InvalidInput
from lore_retriever.filters import (
    MAX_FILTER_DEPTH,
    OPERATORS,
    SYSTEM_FIELDS,
    And,
    Condition,
    Not,
    Or,
    evaluate,
    parse_filter,
    parse_metadata_filters,
    to_json,
)
from lore_retriever.filters.llamaindex_dialect import LLAMAINDEX_OPERATORS


def passes(asked: dict[str, Any], metadata: dict[str, Any], **fields: Any) -> bool:
    return evaluate(parse_filter(asked), fields, metadata)


# Reading the $ language


def test_no_filter_and_the_empty_filter_are_none() -> None:
    assert parse_filter(None) is None
    assert parse_filter({}) is None
    assert evaluate(None, {}, {"k": 1})
    assert to_json(None) is None


def test_a_bare_value_means_equality() -> None:
    assert parse_filter({"topic": "deploy"}) == Condition("topic", "$eq", "deploy")
    assert parse_filter({"tags": ["a", "b"]}) == Condition("tags", "$eq", ("a", "b"))
    assert parse_filter({"gone": None}) == Condition("gone", "$eq", None)


def test_several_keys_and_several_operators_must_all_hold() -> None:
    assert parse_filter({"a": 1, "b": {"$gt": 2, "$lt": 5}}) == And(
        (Condition("a", "$eq", 1), And((Condition("b", "$gt", 2), Condition("b", "$lt", 5))))
    )


def test_a_negated_list_means_none_of_them() -> None:
    assert parse_filter({"$not": [{"a": 1}, {"b": 2}]}) == Not(Or((Condition("a", "$eq", 1), Condition("b", "$eq", 2))))


def test_keys_are_literal_even_with_dots() -> None:
    assert passes({"a.b": 1}, {"a.b": 1})
    assert not passes({"a.b": 1}, {"a": {"b": 1}})


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
scalars = scalars.filter(lambda v: not isinstance(v, str) or (v.isascii() and "\0" not in v))
keys = st.sampled_from(["k", "a.b", "", "schlüssel", "O'Brien"])
conditions = st.builds(lambda key, value: {key: value}, keys, scalars) | st.builds(
    lambda key, operator, values: {key: {operator: values}},
    keys,
    st.sampled_from(["$in", "$nin", "$any", "$all"]),
    st.lists(scalars, max_size=3),
)
trees = st.recursive(
    conditions,
    lambda inner: st.builds(
        lambda operator, parts: {operator: parts},
        st.sampled_from(["$and", "$or", "$not"]),
        st.lists(inner, max_size=3),
    ),
    max_leaves=8,
)


@given(asked=trees)
def test_the_json_form_reads_back_as_the_same_tree(asked: dict[str, Any]) -> None:
    tree = parse_filter(asked)
    assert repr(parse_filter(to_json(tree))) == repr(tree)


# What operators mean


STORED: dict[str, Any] = {
    "null": None,
    "true": True,
    "one": 1,
    "nine": 9,
    "ten": 10,
    "text": "Deploy at nine",
    "digit": "5",
    "list": ["a", 1, None],
    "nothing": "",
    "no_items": [],
}


@pytest.mark.parametrize(
    ("key", "operator", "operand", "answer"),
    [
        ("nine", "$lt", 10, True),
        ("ten", "$gte", 10, True),
        ("ten", "$between", [9, 10], True),
        ("ten", "$between", [10, 9], False),
        ("text", "$gt", 3, False),
        ("nine", "$lt", "z", False),
        ("one", "$eq", 1.0, True),
        ("one", "$eq", True, False),
        ("true", "$eq", 1, False),
        ("digit", "$eq", 5, False),
        ("digit", "$in", [5, "5"], True),
        ("one", "$nin", ["1", True], True),
        ("null", "$eq", None, True),
        ("null", "$ne", None, False),
        ("null", "$ne", 1, True),
        ("null", "$exists", True, True),
        ("null", "$is_empty", True, True),
        ("null", "$all", [], False),
        ("nothing", "$is_empty", True, True),
        ("no_items", "$is_empty", True, True),
        ("one", "$is_empty", False, True),
        ("text", "$like", "Deploy%", True),
        ("text", "$like", "deploy%", False),
        ("text", "$ilike", "deploy%NINE", True),
        ("text", "$like", "Deploy_at_nine", True),
        ("text", "$like", "Deploy\\_at\\_nine", False),
        ("nine", "$like", "9", False),
        ("text", "$text_match", "at", True),
        ("text", "$text_match", "AT", False),
        ("text", "$text_match_insensitive", "AT", True),
        ("text", "$contains", "nine", True),
        ("list", "$contains", "a", True),
        ("list", "$contains", True, False),
        ("list", "$contains", None, True),
        ("ten", "$contains", 10, False),
        ("list", "$any", ["z", 1], True),
        ("list", "$all", ["a", 1], True),
        ("list", "$all", ["a", "z"], False),
        ("list", "$all", [], True),
        ("list", "$any", [], False),
        ("list", "$eq", ["a", 1, None], True),
        ("list", "$eq", ["a", True, None], False),
        ("one", "$in", [], False),
        ("one", "$nin", [], True),
    ],
)
def test_an_operator_answers(key: str, operator: str, operand: Any, answer: bool) -> None:
    assert passes({key: {operator: operand}}, STORED) is answer
    assert passes({"$not": {key: {operator: operand}}}, STORED) is not answer


OPERANDS: dict[str, Any] = {
    "$between": [1, 2],
    "$in": [None, 1],
    "$nin": [1],
    "$exists": False,
    "$is_empty": True,
    "$like": "%",
    "$ilike": "%",
    "$text_match": "",
    "$text_match_insensitive": "",
    "$any": [None, "a"],
    "$all": [],
}


def test_a_missing_key_passes_only_what_asks_for_absence() -> None:
    passing = {operator for operator in OPERATORS if passes({"gone": {operator: OPERANDS.get(operator, 1)}}, {})}
    assert passing == {"$ne", "$nin", "$is_empty", "$exists"}
    assert not passes({"gone": None}, {})
    assert not passes({"gone": {"$exists": True}}, {})


def test_empty_lists_of_filters_are_true_for_and_false_for_or() -> None:
    assert passes({"$and": []}, {})
    assert not passes({"$or": []}, {})
    assert passes({"$not": []}, {})


def test_a_pattern_of_many_wildcards_ends_soon() -> None:
    assert not passes({"k": {"$like": "%a" * 400 + "b"}}, {"k": "a" * 5000})


# A memory's own fields


def test_own_fields_stand_beside_metadata_of_the_same_name() -> None:
    assert passes({"lore_kind": "decision", "kind": "x"}, {"kind": "x"}, kind="decision")
    assert not passes({"kind": "decision"}, {}, kind="decision")


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 1, 31, 8, tzinfo=UTC),
        datetime(2026, 1, 31, 8),
        datetime(2026, 1, 31, 9, tzinfo=timezone(timedelta(hours=1))),
        "2026-01-31T08:00:00Z",
        "2026-01-31 08:00",
        "2026-01-31T09:00:00.000+01:00",
        "2026-01-31T03:00-05",
    ],
)
def test_dates_compare_as_instants(moment: Any) -> None:
    created = {"created_at": datetime(2026, 1, 31, 8, tzinfo=UTC)}
    assert passes({"lore_created_at": moment}, {}, **created)
    assert passes({"lore_created_at": {"$gte": moment, "$lte": moment}}, {}, **created)
    assert not passes({"lore_created_at": {"$lt": moment}}, {}, **created)


def test_a_date_is_its_first_instant_in_utc() -> None:
    assert parse_filter({"lore_created_at": {"$gte": date(2026, 1, 31)}}) == parse_filter(
        {"lore_created_at": {"$gte": "2026-01-31"}}
    )
    assert to_json(parse_filter({"lore_created_at": {"$gte": date(2026, 1, 31)}})) == {
        "lore_created_at": {"$gte": "2026-01-31T00:00:00+00:00"}
    }


def test_an_unset_own_field_is_null_and_does_not_exist() -> None:
    for key in ("lore_agent", "lore_expires_at"):
        assert passes({key: None}, {})
        assert passes({key: {"$exists": False}}, {})
        assert passes({key: {"$is_empty": True}}, {})
    assert passes({"lore_agent": {"$in": ["a", None]}}, {})
    assert not passes({"lore_expires_at": {"$lt": "2030-01-01"}}, {})


def test_pinned_is_a_boolean() -> None:
    assert passes({"lore_pinned": True}, {}, pinned=True)
    assert not passes({"lore_pinned": {"$in": [False, None]}}, {}, pinned=True)


# What is refused


class Colour(str, Enum):  # noqa: UP042 (as LlamaIndex writes its own)
    RED = "red"


REFUSED: list[tuple[Any, str]] = [
    (["k"], r"takes a dict .* not \['k'\]"),
    ("k = 1", "takes a dict"),
    ({"k": {"$foo": 1}}, r"'k': unknown operator '\$foo'. Allowed: \$eq, \$ne"),
    ({"k": {"nested": 1}}, "unknown operator 'nested'"),
    ({"k": {}}, "names no operator"),
    ({"$eq": 1}, r"'\$eq' is no key"),
    ({"$AND": []}, r"above keys: \$and, \$or, \$not"),
    ({"k": {"$not": {"$gt": 1}}}, r"unknown operator '\$not'"),
    ({"$and": {"k": 1}}, r"\$and takes a list of filters"),
    ({"$or": [1]}, "takes a dict"),
    ({"$not": "k"}, "takes a dict"),
    ({1: 2}, "a key is a string, not 1"),
    ({None: 2}, "a key is a string, not None"),
    ({"lore_knd": "x"}, "unknown system field 'lore_knd'. Known: lore_id, lore_kind"),
    ({"k": {"$in": "abc"}}, r"\$in takes a list of values, not 'abc'"),
    ({"k": {"$any": "abc"}}, r"\$any takes a list of values"),
    ({"k": {"$in": [["a"]]}}, r"\$in takes null, a boolean, a number or a string, not \['a'\]"),
    ({"k": {"$between": [1]}}, r"\$between takes a list of two bounds"),
    ({"k": {"$between": [1, "a"]}}, "two bounds of one type"),
    ({"k": {"$gt": None}}, "a number or a string, not None"),
    ({"k": {"$gt": True}}, "a number or a string, not True"),
    ({"k": {"$exists": 1}}, r"\$exists takes true or false, not 1"),
    ({"k": {"$like": 5}}, r"\$like takes a string, not 5"),
    ({"k": {"$like": "a\\"}}, "a backslash escapes the next character"),
    ({"k": {"$like": "a" * 1001}}, "at most 1000 characters"),
    ({"k": {"$gt": float("nan")}}, "a finite number, not nan"),
    ({"k": {"$in": [float("-inf")]}}, "a finite number, not -inf"),
    ({"k": 10**5000}, "at most 400 digits"),
    ({"k": b"bytes"}, "not b'bytes'"),
    ({"k": datetime(2026, 1, 1)}, "compare with the text that was stored"),
    ({"k": "a\0b"}, r"NUL at position 1"),
    ({"k": {"$in": ["a", "\ud800"]}}, "a lone surrogate at position 0"),
    ({"k\0": 1}, "NUL at position 1"),
    ({"lore_kind": 5}, "'lore_kind': .eq takes a string or null, not 5"),
    ({"lore_kind": {"$any": [None]}}, "takes a string, not None"),
    ({"lore_pinned": "true"}, "takes true, false or null"),
    ({"lore_pinned": {"$gt": True}}, r"\$gt does not apply. Allowed: \$eq, \$ne"),
    ({"lore_created_at": {"$like": "2026%"}}, r"\$like does not apply"),
    ({"lore_created_at": "yesterday"}, "ISO 8601"),
    ({"lore_created_at": "2026-02-30"}, "ISO 8601"),
    ({"lore_created_at": 1767225600}, "ISO 8601"),
    ({"lore_created_at": {"$gt": None}}, "ISO 8601"),
    ({"lore_created_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))}, "between the years"),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_cannot_be_meant_is_refused_by_name(asked: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_filter(asked)


def test_a_hostile_value_does_not_break_the_message() -> None:
    with pytest.raises(InvalidInput, match="unknown operator"):
        parse_filter({"k": {"x" * 100_000: 10**5000}})
    with pytest.raises(InvalidInput) as refusal:
        parse_filter({"k": {"$in": "y" * 100_000}})
    assert len(str(refusal.value)) < 300


def test_enums_and_tuples_are_plain_values() -> None:
    tree = parse_filter({"k": Colour.RED, "j": {"$in": (1, 2)}})
    assert to_json(tree) == {"$and": [{"k": {"$eq": "red"}}, {"j": {"$in": [1, 2]}}]}
    assert type(to_json(tree)["$and"][0]["k"]["$eq"]) is str  # type: ignore[index]


def test_a_filter_that_contains_itself_is_too_deep() -> None:
    loop: dict[str, Any] = {}
    loop["$not"] = loop
    with pytest.raises(InvalidInput, match=f"more than {MAX_FILTER_DEPTH} levels"):
        parse_filter(loop)


# LlamaIndex


class Operator(StrEnum):
    EQ = "=="
    IN = "in"


class Joined(StrEnum):
    OR = "or"
    NOT = "not"


@dataclass
class Filter:
    """The shape of a MetadataFilter."""

    key: str
    value: Any
    operator: Any = Operator.EQ


@dataclass
class Filters:
    """The shape of MetadataFilters."""

    filters: list[Any] = field(default_factory=list)
    condition: Any = None


def test_metadata_filters_are_read_by_shape() -> None:
    a, b = Filter("a", 1), Filter("b", ["x"], Operator.IN)
    one, two = Condition("a", "$eq", 1), Condition("b", "$in", ("x",))
    assert parse_metadata_filters(Filters([a, b])) == And((one, two))
    assert parse_metadata_filters(Filters([a, b], Joined.OR)) == Or((one, two))
    assert parse_metadata_filters(Filters([a, b], Joined.NOT)) == Not(Or((one, two)))
    assert parse_metadata_filters(Filters([a, Filters([b], Joined.NOT)])) == And((one, Not(two)))


def test_metadata_filters_may_be_plain_dicts() -> None:
    asked = {
        "condition": "or",
        "filters": [{"key": "a", "value": 1}, {"filters": [{"key": "b", "operator": "is_empty", "value": None}]}],
    }
    assert to_json(parse_metadata_filters(asked)) == {
        "$or": [{"a": {"$eq": 1}}, {"$and": [{"b": {"$is_empty": True}}]}]
    }


@pytest.mark.parametrize("condition", [None, "and", Joined.OR, Joined.NOT])
def test_metadata_filters_without_filters_are_no_filter(condition: Any) -> None:
    assert parse_metadata_filters(Filters([], condition)) is None
    assert parse_metadata_filters(None) is None


def test_all_fourteen_operators_are_known() -> None:
    assert len(LLAMAINDEX_OPERATORS) == 14
    for operator, name in LLAMAINDEX_OPERATORS.items():
        operand = OPERANDS.get(name, 1)
        tree = parse_metadata_filters(Filters([Filter("k", operand, operator)]))
        assert tree == And((parse_filter({"k": {name: operand}}),))  # type: ignore[arg-type]


def test_a_boolean_field_takes_words_where_the_host_refuses_booleans() -> None:
    tree = parse_metadata_filters(Filters([Filter("lore_pinned", "true"), Filter("reviewed", "true")]))
    assert tree == And((Condition("lore_pinned", "$eq", True), Condition("reviewed", "$eq", "true")))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"k": 1}, "takes MetadataFilters"),
        (5, "takes MetadataFilters"),
        (Filters([Filter("k", 1, "~=")]), "unknown operator '~='. Allowed: ==, !="),
        (Filters([Filter("k", "abc", "in")]), r"'k': in takes a list of values, not 'abc'"),
        (Filters([Filter("k", 1, "text_match")]), "text_match takes a string, not 1"),
        (Filters([Filter("$and", 1)]), r"'\$and' is no key"),
        (Filters([Filter("k", 1)], "xor"), "unknown condition 'xor'. Allowed: and, or, not"),
        ({"filters": [{"key": "k", "value": 1}], "conditions": "or"}, "unknown name 'conditions'"),
        ({"filters": [{"key": "k", "op": "!=", "value": 1}]}, "unknown name 'op'"),
        ({"filters": [{"key": "k"}]}, "no 'value'"),
        ({"filters": [{"value": 1}]}, "no 'key'"),
        ({"filters": "k"}, "takes a list of filters"),
    ],
)
def test_metadata_filters_that_cannot_be_meant_are_refused(asked: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_metadata_filters(asked)


def test_deep_metadata_filters_are_refused() -> None:
    asked = Filters([Filter("k", 1)])
    for _ in range(MAX_FILTER_DEPTH):
        asked = Filters([asked])
    with pytest.raises(InvalidInput, match="levels"):
        parse_metadata_filters(asked)


def test_system_fields_are_spelled_with_the_reserved_prefix() -> None:
    assert all(name.startswith("lore_") for name in SYSTEM_FIELDS)
    assert {"lore_kind", "lore_visibility", "lore_owner", "lore_agent", "lore_session", "lore_source"} < set(
        SYSTEM_FIELDS
    )


def test_filters_import_neither_framework_nor_driver() -> None:
    code = "import lore_retriever.filters, sys; print([m for m in ('llama_index', 'langchain_core', 'psycopg', 'numpy') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
