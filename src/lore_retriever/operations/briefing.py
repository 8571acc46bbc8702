"""Briefings: one search and the caller's lists in one transaction, packed by `lore_retriever.context`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lore_retriever.context import Candidate, CountTokens, Request, assemble, counter_of
from lore_retriever.embeddings.base import Vector
from lore_retriever.errors import InvalidInput
from lore_retriever.filters.tree import Filter
from lore_retriever.inputs import utc
from lore_retriever.operations.common import OpenSpace, halfvec_text
from lore_retriever.operations.reading import checked_kinds, filter_json, recall_params
from lore_retriever.results import recall_from_rows
from lore_retriever.steps import Body, Operation, Row, Statement, Transact
from lore_retriever.types import SECTIONS, Hit, Recall, SectionName

__all__ = ["HITS", "MOST_TOKENS", "build_context"]

HITS = 100
"""Hits that a briefing is packed from, whatever its budget: a budget must not change their order."""

MOST_TOKENS = 1_000_000

_PINNED, _TASKS, _RECENT = 50, 20, 20
_WHOLE = 3
"""Long hits whose whole text is read, to be shown in full where the budget allows."""

_CHARS_PER_TOKEN = 8
"""More characters of a text than this many for each token of the budget cannot fit, in any tokenizer of note."""

_MOST_WHOLE_CHARS = 200_000


@dataclass(frozen=True, slots=True)
class _Found:
    """What the transaction read."""

    hits: list[Row]
    listed: list[Row]
    details: list[Row]


def build_context(
    space: OpenSpace,
    queries: str | Iterable[str] | None,
    *,
    max_tokens: int,
    count_tokens: CountTokens | None,
    filter: Mapping[str, Any] | Filter | None,  # noqa: A002 (the hosts' own name)
    kinds: Sequence[str] | None,
    as_of: datetime | None,
    sections: Iterable[SectionName] | None,
    style: str,
    vectors: Sequence[Vector | None] | None = None,
) -> Operation:
    """A briefing on the queries, or on what is pinned, recent and open without any."""
    budget = _checked_budget(max_tokens)
    wanted = _checked_sections(sections)
    if style not in ("markdown", "plain"):
        raise InvalidInput(f"style is {style!r}; give 'markdown' or 'plain'.")
    counter = counter_of(count_tokens, space.embedder)
    asked = _asked(queries)
    search, degraded = None, None
    if asked and "relevant" in wanted:
        search, degraded = yield from recall_params(
            space, asked, limit=HITS, filter=filter, kinds=kinds, as_of=as_of, vectors=vectors
        )
    lists = {
        "filter": filter_json(filter),
        "kinds": checked_kinds(kinds),
        "as_of": utc(as_of, what="as_of"),
        "pinned": _PINNED if "pinned" in wanted else 0,
        "tasks": _TASKS if "open_tasks" in wanted else 0,
        "recent": _RECENT if "recent" in wanted else 0,
        "documents": search is None,
    }
    most_chars = min(_MOST_WHOLE_CHARS, budget * _CHARS_PER_TOKEN)
    found: _Found = yield Transact(lambda: _read(search, lists, most_chars))
    texts = tuple(search["queries"]) if search is not None else ()
    result = recall_from_rows(
        found.hits, recall_id=str(uuid.uuid4()), queries=texts, degraded=degraded, evidence=space.evidence
    )
    candidates, gone = _candidates(found, result)
    request = Request(budget, counter, texts, wanted, style, result.evidence, gone)  # type: ignore[arg-type]
    made = assemble(candidates, request)
    return made.model_copy(
        update={
            "recall_id": result.id if search is not None else None,
            "degraded": degraded,
            "omitted": result.omitted,
        }
    )


def _asked(queries: str | Iterable[str] | None) -> tuple[str, ...]:
    """The queries; none where all of them are blank."""
    if queries is not None and (isinstance(queries, Mapping | bytes) or not isinstance(queries, Iterable)):
        raise InvalidInput(f"the query is {str(queries)[:80]!r}; give a string, a list of strings, or None.")
    given = () if queries is None else (queries,) if isinstance(queries, str) else tuple(queries)
    return given if any(not isinstance(text, str) or text.strip() for text in given) else ()


def _read(search: Mapping[str, Any] | None, lists: Mapping[str, Any], most_chars: int) -> Body:
    hits = (yield Statement("recall", search)) if search is not None else []
    listed = yield Statement("briefing_lists", lists)
    details: list[Row] = []
    if hits:
        long = [row["truncated"] and row["full_length"] <= most_chars for row in hits]
        chars = [
            row["full_length"] if is_long and sum(long[:place]) < _WHOLE else 0
            for place, (row, is_long) in enumerate(zip(hits, long, strict=True))
        ]
        vectors = (search or {}).get("vectors") or []
        params = {
            "owners": [row["owner"] for row in hits],
            "ids": [row["id"] for row in hits],
            "chars": chars,
            "sought": [_sought(row, vectors) for row in hits],
            "named": [_named(row, (search or {})["queries"]) for row in hits],
        }
        details = yield Statement("briefing_details", params)
    return _Found(hits, listed, details)


def _sought(row: Row, vectors: Sequence[Vector | None]) -> str | None:
    """The query's vector, for a long hit: its closest window is shown instead of the one that holds most of the words.

    A window chosen for its words holds the query's stems; the closest one is nearer to what was meant. Ops runbooks,
    closest passages inside at 2,000 tokens: 0.850 with the words' window, 0.890 with the closest.
    """
    vector = vectors[row["query_no"]] if row["truncated"] and vectors else None
    return None if vector is None else halfvec_text(vector)


def _named(row: Row, queries: Sequence[str]) -> str | None:
    """The query, for a hit that matches it exactly: of its windows, those come first that hold the query's identifiers."""
    return queries[row["query_no"]] if row["truncated"] and row["exact_rank"] is not None else None


def _candidates(found: _Found, result: Recall) -> tuple[list[Candidate], list[tuple[str, SectionName]]]:
    """Candidates in the order of `assemble`, and the hits that vanished between two statements."""
    details = {(row["owner"], row["id"]): row for row in found.details}
    hits = [_of_hit(hit, details[hit.owner, hit.id]) for hit in result.hits if (hit.owner, hit.id) in details]
    gone: list[tuple[str, SectionName]] = [
        (hit.id, "relevant") for hit in result.hits if (hit.owner, hit.id) not in details
    ]
    listed = [_of_list(row) for row in found.listed]
    pinned = [one for one in listed if one.section == "pinned"]
    return [*pinned, *hits, *(one for one in listed if one.section != "pinned")], gone


def _of_hit(hit: Hit, detail: Row) -> Candidate:
    text, span = hit.text, hit.span
    if detail["window_start"] is not None:
        text, start = detail["window_text"], detail["window_start"]
        span = (start, start + len(text))
    return Candidate(
        id=hit.id,
        owner=hit.owner,
        section="relevant",
        text=text,
        span=span,
        full_length=hit.full_length,
        kind=hit.kind,
        visibility=hit.visibility,
        pinned=hit.pinned,
        created_at=hit.created_at,
        updated_at=hit.updated_at,
        is_own=detail["is_own"],
        source=detail["source"],
        trust=detail["trust"],
        whole=detail["whole"] or None,
        score=hit.score,
        rank=hit.rank,
    )


def _of_list(row: Row) -> Candidate:
    text = row["text"]
    return Candidate(
        section=row["list"],
        span=(0, len(text)),
        **{name: value for name, value in row.items() if name != "list"},
    )


def _checked_budget(max_tokens: object) -> int:
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or not 0 <= max_tokens <= MOST_TOKENS:
        raise InvalidInput(f"max_tokens is {max_tokens!r}; give a whole number from 0 to {MOST_TOKENS:,}.")
    return max_tokens


def _checked_sections(sections: Iterable[SectionName] | None) -> tuple[SectionName, ...]:
    if sections is None:
        return SECTIONS
    if not isinstance(sections, Iterable):
        raise InvalidInput(f"sections is {sections!r}; give a list of {', '.join(SECTIONS)}.")
    given = (sections,) if isinstance(sections, str) else tuple(sections)
    if unknown := [name for name in given if name not in SECTIONS]:
        raise InvalidInput(f"sections names {str(unknown[0])[:80]!r}; there are {', '.join(SECTIONS)}.")
    return tuple(name for name in SECTIONS if name in given)
