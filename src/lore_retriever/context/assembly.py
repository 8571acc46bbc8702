"""Makes a briefing of candidates. Pure and deterministic: the same memories and budget give the same text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lore_retriever.context.candidates import Candidate, Sifted, sift
from lore_retriever.context.counting import Counter
from lore_retriever.context.packing import LINES, LISTED, RANKED, Packer, Placed, Shares
from lore_retriever.context.passages import marks_of
from lore_retriever.context.rendering import INTRO, Look, Style, look_for, shared_kind
from lore_retriever.types import SECTIONS, Briefing, BriefingItem, Dropped, SectionName, Strength

__all__ = ["Request", "assemble"]

COMPACT_BELOW = 200
"""Budgets of fewer tokens get short lines and labels without kind and date: they would cost more than they say."""

PINNED_SHARE = 0.4
TASKS_SHARE = 0.15
TASKS_SHARE_AT_START = 0.3
"""Most that pinned memories and open tasks may take while others wait; without a query there is more room for tasks."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a briefing is asked for.

    Attributes:
        budget_tokens: Most tokens of the text, 0 or more.
        evidence: Strength of the best evidence; said in the heading where it is weak or none.
        gone: Memories that were found and are no longer there, with the section they were meant for.
    """

    budget_tokens: int
    counter: Counter
    queries: tuple[str, ...] = ()
    sections: Sequence[SectionName] = SECTIONS
    style: Style = "markdown"
    evidence: Strength = "none"
    gone: Sequence[tuple[str, SectionName]] = ()


@dataclass(slots=True)
class _Plan:
    look: Look
    request: Request
    kept: dict[SectionName, list[Candidate]]
    placed: dict[SectionName, list[Placed]] = field(default_factory=dict)
    left: set[tuple[str, str]] = field(default_factory=set)

    def frame(self, section: SectionName) -> tuple[str, str]:
        doubtful = section == "relevant" and self.request.evidence in ("weak", "none")
        evidence = self.request.evidence if doubtful and self.request.queries else None
        return self.look.frame(section, kind=shared_kind(self.kept[section]), evidence=evidence)

    def text(self) -> str:
        parts = [INTRO]
        for section in SECTIONS:
            if placed := self.placed.get(section):
                opening, closing = self.frame(section)
                parts += [opening, *(one.block for one in placed), closing]
        return "".join(parts) if len(parts) > 1 else ""

    def shown(self) -> Iterator[Placed]:
        for section in SECTIONS:
            yield from self.placed.get(section, ())


def assemble(candidates: Sequence[Candidate], request: Request) -> Briefing:
    """A briefing within the budget.

    Args:
        candidates: Pinned first, then hits in their order, open tasks, recent ones.
    """
    sifted = sift(candidates, request.sections)
    texts = [c.whole if c.whole is not None else c.text for group in sifted.kept.values() for c in group]
    look = look_for(texts, style=request.style, compact=request.budget_tokens < COMPACT_BELOW)
    packer = Packer(look, request.counter, marks_of(request.queries, [c.text for c in sifted.kept.get("relevant", [])]))
    plan = _Plan(look, request, sifted.kept)
    _fill(plan, packer)
    text = _trimmed(plan)
    return _briefing(text, plan, sifted, packer)


def _fill(plan: _Plan, packer: Packer) -> None:
    """Give each section its share: pinned first, then what was found, open tasks, recent ones."""
    remaining = float(plan.request.budget_tokens - plan.request.counter.of_part(INTRO))
    asked = bool(plan.kept.get("relevant"))

    def fill(section: SectionName, most: float, shares: Shares) -> None:
        nonlocal remaining
        candidates = plan.kept.get(section) or []
        if not candidates:
            return
        frame = sum(plan.request.counter.of_part(part) for part in plan.frame(section))
        placed, left = packer.fill(candidates, most - frame, shares)
        plan.placed[section] = placed
        plan.left.update(one.identity for one in left)
        remaining -= frame + sum(one.tokens for one in placed) if placed else 0

    others = any(plan.kept.get(name) for name in SECTIONS if name != "pinned")
    fill("pinned", remaining * (PINNED_SHARE if others else 1), LISTED)
    tasks = plan.kept.get("open_tasks") or []
    if asked:
        wanted = sum(packer.placed(task, "line").tokens for task in tasks)
        fill("relevant", remaining - min(TASKS_SHARE * remaining, wanted * 1.2), RANKED)
        fill("open_tasks", remaining * (0.5 if plan.kept.get("recent") else 1), LINES)
        fill("recent", remaining, LINES)
    else:
        fill("open_tasks", remaining * (TASKS_SHARE_AT_START if plan.kept.get("recent") else 1), LISTED)
        fill("recent", remaining, LISTED)


def _trimmed(plan: _Plan) -> str:
    """The text, shorter by its last memories until it fits: parts counted apart may be fewer tokens than the whole."""
    text = plan.text()
    for section in ("recent", "open_tasks", "relevant", "pinned"):
        placed = plan.placed.get(section) or []
        while text and placed and plan.request.counter.count(text) > plan.request.budget_tokens:
            plan.left.add(placed.pop().candidate.identity)
            text = plan.text()
    return text


def _briefing(text: str, plan: _Plan, sifted: Sifted, packer: Packer) -> Briefing:
    request = plan.request
    dropped = [
        Dropped(id=one.id, tokens=packer.placed(one, "line").tokens, reason="budget", section=one.section)
        for section in SECTIONS
        for one in plan.kept.get(section, ())
        if one.identity in plan.left
    ]
    dropped += [
        reason.model_copy(update={"tokens": packer.placed(one, "line").tokens}) for one, reason in sifted.dropped
    ]
    dropped += [Dropped(id=name, tokens=0, reason="invalid", section=section) for name, section in request.gone]
    return Briefing(
        text=text,
        items=tuple(_item(one) for one in plan.shown()),
        used_tokens=request.counter.count(text) if text else 0,
        budget_tokens=request.budget_tokens,
        dropped=tuple(dropped),
        counter=request.counter.name,
        queries=request.queries,
        evidence=request.evidence,
    )


def _item(placed: Placed) -> BriefingItem:
    one, shown = placed.candidate, placed.extract
    return BriefingItem(
        id=one.id,
        section=one.section,
        text=shown.text,
        detail=shown.detail,
        tokens=placed.tokens,
        truncated=shown.truncated,
        full_length=one.full_length,
        span=shown.span,
        kind=one.kind,
        visibility=one.visibility,
        owner=one.owner,
        pinned=one.pinned,
        source=one.source,
        trust=one.trust,
        created_at=one.created_at,
        updated_at=one.updated_at,
        score=one.score,
        rank=one.rank,
    )
