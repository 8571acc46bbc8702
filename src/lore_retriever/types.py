"""The records that go in and come out: frozen, typed, JSON-clean."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lore_retriever.errors import ScopeMissing

__all__ = [
    "KNOWN_KINDS",
    "LEGS",
    "EmbeddingState",
    "Hit",
    "LegMatch",
    "LegName",
    "Memory",
    "NewMemory",
    "Recall",
    "Scope",
    "Strength",
    "Visibility",
]

Visibility = Literal["private", "shared"]
Strength = Literal["strong", "medium", "weak", "none"]
LegName = Literal["vector", "exact", "relaxed", "alias"]
EmbeddingState = Literal["complete", "pending", "none"]

LEGS: tuple[LegName, ...] = ("vector", "exact", "relaxed", "alias")
"""Every way to find candidates, in the order in which results print them."""

KNOWN_KINDS: tuple[str, ...] = (
    "fact",
    "preference",
    "decision",
    "convention",
    "gotcha",
    "reference",
    "runbook",
    "episode",
    "task",
    "open-question",
    "document",
)
"""Kinds with a half-life of their own. Any other text is allowed and fades like an unknown kind."""


class Record(BaseModel):
    """A frozen record that refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Scope(Record):
    """On whose behalf a transaction reads and writes: the organisation's shared rows and the user's own.

    Raises:
        ScopeMissing: If either name is empty or blank.
    """

    org: str
    user: str

    @model_validator(mode="after")
    def _both_named(self) -> Self:
        for name, value in (("org", self.org), ("user", self.user)):
            if not value.strip():
                raise ScopeMissing(f"{name} is {value!r}: a scope names an organisation and a user.")
        return self


class NewMemory(Record):
    """A memory to store. Only `content` is needed.

    Attributes:
        content: The text, of any length up to `limits.MAX_CONTENT_CHARS`.
        id: Free text of 1 to 512 characters; an own memory of that id is replaced. None makes a new one.
        kind: One of `KNOWN_KINDS` or any other word; decides how it fades.
        visibility: `private` to its owner or `shared` with the organisation.
        metadata: JSON object of your own; keys that start with `lore_` are reserved.
        pinned: Pinned memories open every briefing.
        aliases: Other names under which this memory is found.
        created_at: When it became known (aware, or naive and read as UTC); now if None.
        expires_at: From then on it is hidden; never if None.
        agent, session, source, trust: Where it came from; filterable.
        language: Language of `content` as an ISO 639-1 code, if known.
    """

    content: str
    id: str | None = None
    kind: str = "fact"
    visibility: Visibility = "private"
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    pinned: bool = False
    aliases: tuple[str, ...] = ()
    created_at: datetime | None = None
    expires_at: datetime | None = None
    agent: str | None = None
    session: str | None = None
    source: str | None = None
    trust: str | None = None
    language: str | None = None


class Memory(Record):
    """A whole memory as stored."""

    id: str
    content: str
    kind: str
    visibility: Visibility
    owner: str
    metadata: dict[str, Any]
    pinned: bool
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    invalidated_at: datetime | None
    superseded_by: str | None
    agent: str | None
    session: str | None
    source: str | None
    trust: str | None
    language: str | None
    content_original: str | None
    version: int
    full_length: int
    truncated: bool = False
    """True where `content` is an excerpt from the start (`list`); `get` is always whole."""


class LegMatch(Record):
    """How one leg found a hit.

    Attributes:
        rank: Place in the leg, from 1.
        value: The leg's own measure, larger is better: cosine similarity (`vector`), text score (`exact`,
            `relaxed`), None for `alias`.
        matched: What matched, where the leg can say (the alias).
    """

    rank: int
    value: float | None = None
    matched: str | None = None


class Hit(Record):
    """One place in a ranking.

    Attributes:
        text: The whole memory when it has 1,200 characters or fewer, else the window that matched.
        span: Half-open range of `text` in the memory, in code points.
        full_length: Length of the whole memory, in code points.
        score: `relevance × recency × reinforcement`; larger is better.
        relevance: Fused reciprocal ranks, before the multipliers.
        legs: The legs that proposed it.
        query: Which of the queries found it best, from 0.
        strength: How strong the evidence is that this answers the query.
    """

    id: str
    rank: int
    text: str
    score: float
    relevance: float
    recency: float
    reinforcement: float
    truncated: bool
    full_length: int
    span: tuple[int, int]
    legs: dict[LegName, LegMatch]
    kind: str
    visibility: Visibility
    owner: str
    pinned: bool
    metadata: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    query: int = 0
    strength: Strength = "none"


class Recall(Record):
    """What a search found, best first.

    Attributes:
        id: Name of this search, for `feedback(…, recall_id=…)`.
        omitted: Hits left out because the result outgrew the store's budget of characters.
        degraded: Why the vector leg did not run, or None.
        evidence: Strength of the best evidence.
    """

    id: str
    queries: tuple[str, ...]
    hits: tuple[Hit, ...]
    omitted: int = 0
    degraded: str | None = None
    evidence: Strength = "none"
