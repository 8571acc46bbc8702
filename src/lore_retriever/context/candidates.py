"""What a briefing may be made of, and how much of it to show. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from lore_retriever.context.duplicates import duplicates_of
from lore_retriever.context.passages import Span, best_passage, one_line
from lore_retriever.types import Detail, Dropped, SectionName, Visibility

__all__ = [
    "LINE_CHARS",
    "PASSAGE_CHARS",
    "SHORT_LINE_CHARS",
    "TASK_KINDS",
    "Candidate",
    "Extract",
    "Sifted",
    "extract",
    "sift",
]

TASK_KINDS = ("task", "open-question")
"""Kinds that stand in a section of their own: things to do, not things known."""

PASSAGE_CHARS = 400
LINE_CHARS = 120
SHORT_LINE_CHARS = 60
WHOLE_LINE = 4 / 3
"""A memory of one line that is hardly longer than a line comes whole: cutting it would save little and lose the end."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One memory that may enter a briefing.

    Attributes:
        text: All of it up to 1,200 characters, else the window that matched, or its beginning.
        span: Where `text` stands in the memory.
        whole: All of a longer memory, where it is at hand.
        is_own: Whether the caller owns it.
        score, rank: From the search; None where no query found it.
    """

    id: str
    owner: str
    section: SectionName
    text: str
    span: Span
    full_length: int
    kind: str
    visibility: Visibility
    pinned: bool
    created_at: datetime
    updated_at: datetime
    is_own: bool = True
    source: str | None = None
    trust: str | None = None
    whole: str | None = None
    score: float | None = None
    rank: int | None = None

    @property
    def identity(self) -> tuple[str, str]:
        """What tells it from every other memory that the caller sees."""
        return self.owner, self.id


@dataclass(frozen=True, slots=True)
class Extract:
    """As much of a memory as is shown.

    Attributes:
        span: Where it stands in the memory.
    """

    detail: Detail
    text: str
    span: Span
    full_length: int

    @property
    def truncated(self) -> bool:
        """Whether this is less than the whole memory."""
        return self.span != (0, self.full_length)


def extract(
    candidate: Candidate, detail: Detail, marks: Mapping[str, float], *, line_chars: int = LINE_CHARS
) -> Extract:
    """The memory in at most the detail asked for; a short one comes whole in less."""
    if detail == "full" and candidate.whole is not None:
        return Extract("full", candidate.whole, (0, candidate.full_length), candidate.full_length)
    text, (start, end) = candidate.text, candidate.span
    if detail == "line" and (len(text) > WHOLE_LINE * line_chars or "\n" in text):
        text, (low, high) = one_line(text, marks, line_chars)
        return Extract("line", text, (start + low, start + high), candidate.full_length)
    if detail == "passage" and len(text) > PASSAGE_CHARS:
        low, high = best_passage(text, marks, PASSAGE_CHARS)
        return Extract("passage", text[low:high], (start + low, start + high), candidate.full_length)
    whole = (start, end) == (0, candidate.full_length)
    return Extract("full" if whole else "excerpt", text, (start, end), candidate.full_length)


@dataclass(slots=True)
class Sifted:
    """Candidates by section, in order, and what was left out before any token was counted."""

    kept: dict[SectionName, list[Candidate]] = field(default_factory=dict)
    dropped: list[tuple[Candidate, Dropped]] = field(default_factory=list)


def sift(candidates: Sequence[Candidate], sections: Sequence[SectionName]) -> Sifted:
    """Each memory once, in the section it belongs to; tasks apart, duplicates out.

    Args:
        candidates: Pinned first, then hits in their order, open tasks, recent ones.
        sections: The sections that the briefing has.
    """
    sifted = Sifted({name: [] for name in sections})
    placed: list[Candidate] = []
    seen: set[tuple[str, str]] = set()
    for candidate in candidates:
        if candidate.identity in seen:
            continue
        seen.add(candidate.identity)
        section: SectionName = "open_tasks" if candidate.kind in TASK_KINDS else candidate.section
        if section not in sections:
            reason = Dropped(id=candidate.id, tokens=0, reason="kind", section=candidate.section)
            sifted.dropped.append((candidate, reason))
            continue
        placed.append(replace(candidate, section=section))
    for candidate, same in zip(placed, duplicates_of([c.text for c in placed]), strict=True):
        if same is None:
            sifted.kept[candidate.section].append(candidate)
            continue
        reason = Dropped(
            id=candidate.id, tokens=0, reason="duplicate", section=candidate.section, duplicate_of=placed[same].id
        )
        sifted.dropped.append((candidate, reason))
    return sifted
