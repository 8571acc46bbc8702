"""The records that go in and come out: frozen, typed, JSON-clean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from html import escape
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from lore_retriever.errors import LoreError, ScopeMissing

__all__ = [
    "KNOWN_KINDS",
    "LEGS",
    "SECTIONS",
    "Briefing",
    "BriefingItem",
    "Change",
    "Detail",
    "DropReason",
    "Dropped",
    "EmbeddingState",
    "Hit",
    "LegMatch",
    "LegName",
    "Memory",
    "Misled",
    "Moment",
    "NewMemory",
    "Recall",
    "Reinforcement",
    "Scope",
    "SectionName",
    "Similar",
    "Strength",
    "Visibility",
]

Visibility = Literal["private", "shared"]
Strength = Literal["strong", "medium", "weak", "none"]
LegName = Literal["vector", "exact", "relaxed", "alias"]
EmbeddingState = Literal["complete", "pending", "none"]
SectionName = Literal["pinned", "relevant", "recent", "open_tasks"]
Detail = Literal["full", "excerpt", "passage", "line"]
DropReason = Literal["budget", "duplicate", "kind", "invalid"]

SECTIONS: tuple[SectionName, ...] = ("pinned", "relevant", "recent", "open_tasks")
"""The sections of a briefing, in the order in which it shows them."""

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


def _no_count(value: object) -> object:
    """The value, unless it is a number: `2025` would be read as 34 minutes past midnight on the first of January 1970."""
    if isinstance(value, datetime):
        return value
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return value
    raise ValueError("give a date and time, as in 2025-01-31T09:00:00Z, not a number")


Moment = Annotated[datetime, BeforeValidator(_no_count)]
"""A date and time as it comes in: a datetime, or text in ISO 8601."""


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
        language: Language of `content` as an ISO 639-1 code, if known; else a store with a translator detects it.
        verbatim: Store `content` as it is, although the store has a translator.
    """

    content: str
    id: str | None = None
    kind: str = "fact"
    visibility: Visibility = "private"
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    pinned: bool = False
    aliases: tuple[str, ...] = ()
    created_at: Moment | None = None
    expires_at: Moment | None = None
    agent: str | None = None
    session: str | None = None
    source: str | None = None
    trust: str | None = None
    language: str | None = None
    verbatim: bool = False


class Memory(Record):
    """A whole memory as stored.

    Attributes:
        content: What is searched and shown: in a store with a translator, the translation.
        content_original: What was given, where `content` is a translation of it; None in a `list`.
        language: Language of what was given, as far as known.
    """

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
    _explain: Callable[[], Any] | None = PrivateAttr(default=None)

    def explain(self) -> Any:
        """What every leg proposed for this search, asked anew: an `Explanation` (awaitable from an asynchronous view).

        Raises:
            LoreError: If this result did not come from a view (it was loaded from JSON, say).
        """
        if self._explain is None:
            raise LoreError("this result is not bound to a store. Use explain() of a view, with the same query.")
        return self._explain()

    def bound(self, explain: Callable[[], Any]) -> Self:
        """The same result, able to explain itself."""
        self._explain = explain
        return self

    def _repr_html_(self) -> str:
        from lore_retriever.rendering import recall_html

        return recall_html(self)


class Change(Record):
    """One entry in the history of a memory.

    Attributes:
        version: The version that the change ended (`updated`) or made (`invalidated`, `restored`).
        content: The text that an update replaced; None for the other events.
        superseded_by: The successor that an invalidation named.
    """

    version: int
    event: Literal["updated", "invalidated", "restored"]
    content: str | None
    superseded_by: str | None
    changed_at: datetime


class Similar(Record):
    """A memory that was just stored, and another that says nearly the same.

    Attributes:
        similarity: Cosine of their closest windows.
        resemblance: Share of their words that both have.
    """

    id: str
    other: str
    owner: str
    similarity: float
    resemblance: float

    def __str__(self) -> str:
        return (
            f"memory {self.id!r} says nearly the same as {self.other!r} of {self.owner!r} (similarity {self.similarity:.2f},"
            f" {self.resemblance:.0%} of the words): update that one, or let this one supersede it"
        )


class Reinforcement(Record):
    """How votes make a memory stand.

    Attributes:
        useful, misleading: Votes of the last 90 days.
        multiplier: `1 + 0.15 ln(1 + useful) - 0.25 ln(1 + misleading)`, kept within 0.5 and 1.4.
    """

    useful: int
    misleading: int
    multiplier: float

    @property
    def needs_review(self) -> bool:
        """Whether it misled at least twice, and more often than it was useful."""
        return self.misleading >= 2 and self.misleading > self.useful


class Misled(Reinforcement):
    """A memory whose votes ask for a review; `content` is cut to 1,200 characters."""

    id: str
    owner: str
    content: str


class BriefingItem(Record):
    """One memory in a briefing.

    Attributes:
        text: What the briefing shows of it, word for word; a `line` has its white space collapsed.
        detail: How much that is: all of it, the window that matched, a passage, or one line.
        tokens: What its label and text cost.
        span: Half-open range of what is shown in the memory, in code points.
        rank: Place among the hits of the search, from 1; None where no query found it.
    """

    id: str
    section: SectionName
    text: str
    detail: Detail
    tokens: int
    truncated: bool
    full_length: int
    span: tuple[int, int]
    kind: str
    visibility: Visibility
    owner: str
    pinned: bool
    source: str | None
    trust: str | None
    created_at: datetime
    updated_at: datetime
    score: float | None = None
    rank: int | None = None


class Dropped(Record):
    """One memory that was considered for a briefing and left out.

    Attributes:
        tokens: What its shortest form would have cost.
        reason: `budget` (no room), `duplicate` (of `duplicate_of`, nearly word for word), `kind` (a task or an open
            question where no section takes it), `invalid` (gone or invalidated while the briefing was made).
        section: Where it would have stood.
    """

    id: str
    tokens: int
    reason: DropReason
    section: SectionName
    duplicate_of: str | None = None


class Briefing(Record):
    """What a model is told before it works: memories within a budget of tokens, quoted as data.

    Attributes:
        text: To be put into a prompt as it is; empty where nothing was found or nothing fits.
        items: What `text` shows, in its order.
        used_tokens: Tokens of `text`, never more than `budget_tokens`.
        dropped: Everything else that was considered, with the reason.
        counter: What counted the tokens.
        recall_id: Name of the search inside, for `feedback(…, recall_id=…)`; None without a query.
        degraded: Why the vector leg did not run, or None.
        evidence: Strength of the best evidence for the queries.
        omitted: Hits that the search left out because they outgrew the store's budget of characters.
    """

    text: str
    items: tuple[BriefingItem, ...]
    used_tokens: int
    budget_tokens: int
    dropped: tuple[Dropped, ...]
    counter: str
    queries: tuple[str, ...] = ()
    recall_id: str | None = None
    degraded: str | None = None
    evidence: Strength = "none"
    omitted: int = 0

    @property
    def sections(self) -> dict[SectionName, tuple[BriefingItem, ...]]:
        """The items by section, in the order of `text`; sections without items are absent."""
        found = {name: tuple(item for item in self.items if item.section == name) for name in SECTIONS}
        return {name: items for name, items in found.items() if items}

    @property
    def overhead_tokens(self) -> int:
        """What headings, fences and separators cost: `used_tokens` less the tokens of the items."""
        return self.used_tokens - sum(item.tokens for item in self.items)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """For notebooks: the text as it is, and what became of each memory."""
        shown = [(i.section, i.id, f"{i.detail}, {i.tokens} tokens", i.text[:200]) for i in self.items]
        left = [(d.section, d.id, f"left out: {d.reason}, {d.tokens} tokens", "") for d in self.dropped]
        rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in shown + left)
        return (
            f"<p><b>Briefing</b>: {self.used_tokens:,} of {self.budget_tokens:,} tokens ({escape(self.counter)})</p>"
            f"<pre>{escape(self.text)}</pre><details><summary>{len(self.items)} shown, {len(self.dropped)} left out"
            f"</summary><table>{rows}</table></details>"
        )
