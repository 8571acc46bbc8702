"""Limits are documented constants: what is at the limit is taken, what is beyond is refused by number."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lore_retriever import InvalidInput, Memories, limits
from lore_retriever.filters import tree

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "limits.md"
CONSTANTS = {
    name: value
    for module in (limits, tree)
    for name, value in vars(module).items()
    if name.startswith("MAX_") and isinstance(value, int)
}


def test_the_page_lists_every_limit_with_its_value() -> None:
    listed = re.findall(r"^\|[^|]*\| ([\d,]+) \| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: int(value.replace(",", "")) for value, name in listed} == CONSTANTS
    assert len(CONSTANTS) == 13


def nested(levels: int) -> dict[str, Any]:
    """Metadata of so many levels."""
    inner: Any = 1
    for _ in range(levels - 1):
        inner = {"a": inner}
    return {"a": inner}


def filter_of(levels: int) -> dict[str, Any]:
    """A filter of so many levels."""
    inner: dict[str, Any] = {"a": 1}
    for _ in range(levels - 1):
        inner = {"$not": inner}
    return inner


def json_of(characters: int) -> dict[str, Any]:
    """Metadata that is so long as JSON."""
    return {"a": "x" * (characters - len('{"a": ""}'))}


CASES: dict[str, Callable[[Memories, int], object]] = {
    "MAX_CONTENT_CHARS": lambda ana, n: ana.remember("walrus " * (n // 7) + "x" * (n % 7), id="m"),
    "MAX_ID_CHARS": lambda ana, n: ana.remember("x", id="i" * n),
    "MAX_NAME_CHARS": lambda ana, n: ana.remember("x", kind="k" * n),
    "MAX_METADATA_CHARS": lambda ana, n: ana.remember("x", id="m", metadata=json_of(n)),
    "MAX_METADATA_DEPTH": lambda ana, n: ana.remember("x", id="m", metadata=nested(n)),
    "MAX_QUERIES": lambda ana, n: ana.recall(["walrus"] * n),
    "MAX_LIMIT": lambda ana, n: ana.recall("walrus", limit=n),
    "MAX_FILTER_DEPTH": lambda ana, n: ana.recall("walrus", filter=filter_of(n)),
    "MAX_FILTER_NODES": lambda ana, n: ana.recall("walrus", filter={"$or": [{"a": k} for k in range(n - 1)]}),
    "MAX_FILTER_VALUES": lambda ana, n: ana.recall("walrus", filter={"a": {"$in": list(range(n))}}),
    "MAX_PATTERN_CHARS": lambda ana, n: ana.recall("walrus", filter={"a": {"$like": "p" * n}}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_at_the_limit_is_taken_and_what_is_beyond_is_refused_by_number(ana: Memories, name: str) -> None:
    CASES[name](ana, CONSTANTS[name])
    with pytest.raises(InvalidInput, match=f"{CONSTANTS[name]:,}|{CONSTANTS[name]}"):
        CASES[name](ana, CONSTANTS[name] + 1)


def test_a_query_beyond_its_limit_is_cut_and_says_so(ana: Memories) -> None:
    ana.remember("the walrus census", id="m")
    whole = ana.recall(("walrus " * limits.MAX_QUERY_CHARS)[: limits.MAX_QUERY_CHARS])
    cut = ana.recall(("walrus " * limits.MAX_QUERY_CHARS)[: limits.MAX_QUERY_CHARS + 1])
    assert whole.hits[0].id == cut.hits[0].id == "m"
    assert whole.degraded is None
    assert f"{limits.MAX_QUERY_CHARS:,}" in str(cut.degraded)


def test_a_hit_of_a_window_s_length_comes_whole_and_a_longer_one_does_not(ana: Memories) -> None:
    for more, is_cut in ((0, False), (1, True)):
        ana.remember(("walrus " * 300)[: limits.MAX_WINDOW_CHARS + more - 1] + ".", id="m")
        (hit,) = ana.recall("walrus").hits
        assert hit.truncated is is_cut
        assert len(hit.text) <= limits.MAX_WINDOW_CHARS
