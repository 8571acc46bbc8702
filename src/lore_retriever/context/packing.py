"""Fits memories into a budget of tokens. Pure and deterministic.

A budget decides how much of each memory is shown, never which comes first. Within a section the first memories are
shown whole or at length, the next as passages, the last as lines; one that does not fit even as a line is left out, and the
next is tried. Past half of the budget a short memory is not cut to a line before the next ones have been tried: its label
would cost as much as what is left of it says. What is left over then lengthens the first ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lore_retriever.context.candidates import LINE_CHARS, PASSAGE_CHARS, SHORT_LINE_CHARS, Candidate, Extract, extract
from lore_retriever.context.counting import Counter
from lore_retriever.context.rendering import Look, label_of, shared_kind
from lore_retriever.types import Detail

__all__ = ["LINES", "LISTED", "RANKED", "Packer", "Placed", "Shares"]

Shares = Sequence[tuple[Detail, float]]
"""Details from long to short, each with the share of the section's budget at which it ends."""

RANKED: Shares = (("full", 0.5), ("excerpt", 0.85), ("passage", 0.97), ("line", 1.0))
LISTED: Shares = (("excerpt", 0.6), ("passage", 0.9), ("line", 1.0))
LINES: Shares = (("line", 1.0),)

_LADDER: tuple[Detail, ...] = ("line", "passage", "excerpt", "full")
FULL_ITEMS = 3
"""Memories of a section that may be shown whole although they are long."""

FULL_SHARE = 0.5
"""Most that one long memory may take of its section."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One memory as it will be written."""

    candidate: Candidate
    extract: Extract
    block: str
    tokens: int


def _is_cut_short(made: Placed) -> bool:
    """Whether this is a piece of a memory that would be short even whole."""
    return made.extract.truncated and made.candidate.full_length <= PASSAGE_CHARS


class Packer:
    """Knows what each memory costs in each detail, and fills sections."""

    def __init__(self, look: Look, counter: Counter, marks: Mapping[str, float]) -> None:
        self._look = look
        self._counter = counter
        self._marks = marks
        self._made: dict[tuple[tuple[str, str], Detail, bool], Placed] = {}

    def placed(self, candidate: Candidate, detail: Detail, *, with_kind: bool = True) -> Placed:
        """A memory in one detail."""
        key = (candidate.identity, detail, with_kind)
        if key not in self._made:
            short = self._look.compact
            shown = extract(candidate, detail, self._marks, line_chars=SHORT_LINE_CHARS if short else LINE_CHARS)
            block = self._look.block(
                label_of(candidate, with_kind=with_kind and not short, with_date=not short),
                shown.text,
                cut_before=shown.span[0] > 0,
                cut_after=shown.span[1] < shown.full_length,
            )
            self._made[key] = Placed(candidate, shown, block, self._counter.of_part(block))
        return self._made[key]

    def fill(
        self, candidates: Sequence[Candidate], budget: float, shares: Shares
    ) -> tuple[list[Placed], list[Candidate]]:
        """The memories that fit, in order, and those that do not.

        Args:
            budget: Tokens for the memories alone.
        """
        with_kind = shared_kind(candidates) is None
        placed: dict[int, Placed] = {}
        put_off: list[int] = []
        spent, tier = 0, 0
        for place, candidate in enumerate(candidates):
            for step in range(tier, len(shares)):
                detail, share = shares[step]
                made = self.placed(candidate, detail, with_kind=with_kind)
                if len(shares) > 1 and _is_cut_short(made) and 2 * spent > budget:
                    put_off.append(place)
                    break
                if spent + made.tokens <= share * budget:
                    placed[place] = made
                    spent += made.tokens
                    tier = step
                    break
        for place in put_off:
            made = self.placed(candidates[place], "line", with_kind=with_kind)
            if spent + made.tokens <= budget:
                placed[place] = made
                spent += made.tokens
        left = [candidate for place, candidate in enumerate(candidates) if place not in placed]
        shown = [placed[place] for place in sorted(placed)]
        return self._lengthened(shown, budget - spent, budget, with_kind), left

    def _lengthened(self, placed: list[Placed], spare: float, budget: float, with_kind: bool) -> list[Placed]:
        """The first ones at more length, as far as what is spare allows."""
        for detail in _LADDER[1:]:
            for place, now in enumerate(placed):
                if detail == "full" and place >= FULL_ITEMS:
                    break
                longer = self.placed(now.candidate, detail, with_kind=with_kind)
                if len(longer.extract.text) <= len(now.extract.text):
                    continue
                if longer.tokens - now.tokens > spare or (detail == "full" and longer.tokens > FULL_SHARE * budget):
                    break
                spare -= longer.tokens - now.tokens
                placed[place] = longer
        return placed
