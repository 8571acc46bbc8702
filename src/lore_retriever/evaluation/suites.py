"""What an evaluation runs on: texts, questions and judgements, as plain records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from lore_retriever.errors import InvalidInput

__all__ = ["Document", "Qrels", "Query", "Suite"]

Qrels = Mapping[str, Mapping[str, int]]
"""Grade (0 or more) per document id, per query id. A document that is absent was not judged."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text to be found.

    Attributes:
        id: Unique in the suite.
        scope: Only queries of the same scope may find it; None is a scope of its own.
        owner: Whose private text it is inside the scope; None is the user who asks.
        kind: How it fades; None stands for `document`, which never does.
        created_at: When it became known; None leaves it to the time of loading.
    """

    id: str
    text: str
    scope: str | None = None
    owner: str | None = None
    kind: str | None = None
    created_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Query:
    """One question.

    Attributes:
        texts: The question, or the two or three short queries that are asked together.
        scope: Where it may look; see `Document.scope`.
        filter: Metadata filter that the search applies, in the store's own language.
        forbidden: Ids that must never come back for it; one of them fails a run.
        answerable: False where the corpus holds no answer: such queries stay out of the means.
        as_of: The time at which it is asked; None is now.
    """

    id: str
    texts: tuple[str, ...]
    scope: str | None = None
    filter: Mapping[str, Any] | None = None
    forbidden: frozenset[str] = frozenset()
    answerable: bool = True
    as_of: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The question in one line; several short ones are joined by ` | `."""
        return " | ".join(self.texts)


@dataclass(frozen=True)
class Suite:
    """A corpus, its queries, and which documents answer which query.

    Raises:
        InvalidInput: If two documents or two queries share an id, or a query has no text.
    """

    name: str
    documents: tuple[Document, ...]
    queries: tuple[Query, ...]
    qrels: Qrels

    def __post_init__(self) -> None:
        _refuse_repeats(self.name, "documents", [d.id for d in self.documents])
        _refuse_repeats(self.name, "queries", [q.id for q in self.queries])
        for query in self.queries:
            if not query.texts:
                raise InvalidInput(f"query {query.id!r} of suite {self.name!r} has no text: give it one.")

    @property
    def judged(self) -> tuple[Query, ...]:
        """The queries that count in a mean: answerable, with at least one relevant document."""
        return tuple(q for q in self.queries if q.answerable and self.relevant(q.id))

    @property
    def unanswerable(self) -> tuple[Query, ...]:
        """The queries that have no answer in the corpus."""
        return tuple(q for q in self.queries if not q.answerable)

    @property
    def dangling(self) -> int:
        """How many relevant documents, over all judged queries, the corpus does not hold."""
        known = {d.id for d in self.documents}
        return sum(d not in known for q in self.judged for d in self.relevant(q.id))

    @cached_property
    def fingerprint(self) -> str:
        """Hash (64 hexadecimal digits) of all that decides a figure: texts, scopes, queries, grades."""
        return _digest([*self._document_rows(), *self._query_rows()])

    @cached_property
    def corpus_fingerprint(self) -> str:
        """Hash (64 hexadecimal digits) of the documents alone: the same hash, the same load."""
        return _digest(self._document_rows())

    def relevant(self, query_id: str) -> dict[str, int]:
        """Grades above 0 of one query, by document id; empty for a query without any."""
        return {d: grade for d, grade in self.qrels.get(query_id, {}).items() if grade > 0}

    def visible(self, query: Query) -> frozenset[str]:
        """Ids of the documents that the query's scope may see, filters apart."""
        return frozenset(d.id for d in self.documents if d.scope == query.scope and d.owner is None)

    def select(self, keep: Callable[[Query], bool], *, name: str | None = None) -> Suite:
        """The same corpus with the queries that `keep` accepts."""
        return replace(self, name=name or self.name, queries=tuple(q for q in self.queries if keep(q)))

    def clip(self, max_chars: int) -> Suite:
        """The same suite with every text cut to its first `max_chars` characters (at least 1)."""
        if max_chars < 1:
            raise InvalidInput(f"max_chars is {max_chars}: a text keeps at least one character.")
        cut = tuple(replace(d, text=d.text[:max_chars]) for d in self.documents)
        return replace(self, documents=cut)

    def filtered(self, condition: Mapping[str, Any]) -> Suite:
        """The same suite with one metadata filter on every query."""
        return replace(self, queries=tuple(replace(q, filter=dict(condition)) for q in self.queries))

    def _document_rows(self) -> list[object]:
        documents = sorted(self.documents, key=lambda d: d.id)
        return [[d.id, d.text, d.scope, d.owner, d.kind, d.created_at, dict(d.metadata)] for d in documents]

    def _query_rows(self) -> list[object]:
        queries = sorted(self.queries, key=lambda q: q.id)
        asked = [[q.id, q.texts, q.scope, q.filter, q.forbidden, q.answerable, q.as_of] for q in queries]
        return [*asked, {q.id: dict(self.qrels.get(q.id, {})) for q in queries}]


def _digest(rows: Sequence[object]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, default=_plain).encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()


def _refuse_repeats(suite: str, what: str, ids: Sequence[str]) -> None:
    seen: set[str] = set()
    for each in ids:
        if each in seen:
            raise InvalidInput(f"{what} of suite {suite!r} hold the id {each!r} twice: ids are unique.")
        seen.add(each)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, frozenset):
        return sorted(value)
    return dict(value) if isinstance(value, Mapping) else str(value)
