"""A search taken apart, for people: what every leg looked for and proposed, and how each score came about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lore_retriever.cli.output import shown
from lore_retriever.types import LEGS

if TYPE_CHECKING:
    from lore_retriever.explanation import Explanation, Proposal, QueryExplanation

__all__ = ["explanation_view"]

PROPOSALS_SHOWN = 4


def explanation_view(explanation: Explanation) -> list[RenderableType]:
    """What to print below the hits, part by part."""
    parts: list[RenderableType] = []
    for number, asked in enumerate(explanation.queries):
        parts.append(_query_lines(asked))
        if asked.words:
            parts.append(_words_table(asked))
        parts.append(_legs_table(explanation, number))
    return [*parts, _scores_table(explanation)]


def _query_lines(asked: QueryExplanation) -> Text:
    lines = Text.assemble(("\n" + shown(asked.text), "bold"), "\n", ("exact query  ", "dim"))
    lines.append(shown(asked.exact_query) or "no words")
    if asked.identifiers:
        lines.append("\nidentifiers  ", style="dim").append(shown(", ".join(asked.identifiers)))
    return lines


def _table(*columns: str) -> Table:
    return Table(*columns, box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))


def _words_table(asked: QueryExplanation) -> Table:
    table = _table("relaxed looked for", "in memories", "weight", "")
    for word in asked.words:
        near = f"near miss of {shown(word.asked)}" if word.is_near_miss else ""
        table.add_row(shown(word.stem), f"{word.df:,}", f"{word.idf:.2f}", Text(near, style="dim"))
    return table


def _legs_table(explanation: Explanation, number: int) -> Table:
    table = _table("leg", "proposed", "ms", "first ones")
    for name in LEGS:
        leg = explanation.leg(name, number)
        first = ", ".join(_proposal(each) for each in leg.proposals[:PROPOSALS_SHOWN])
        more = ", …" if len(leg.proposals) > PROPOSALS_SHOWN else ""
        table.add_row(name, str(len(leg.proposals)), f"{leg.took_ms:.1f}", Text(first + more, overflow="fold"))
    return table


def _proposal(proposal: Proposal) -> str:
    value = "" if proposal.value is None else f" {proposal.value:.3f}"
    matched = f" ({shown(', '.join(proposal.matched))})" if proposal.matched else ""
    return f"{shown(proposal.id)}{value}{matched}"


def _scores_table(explanation: Explanation) -> Table:
    table = _table("\nscore", "= relevance", "× recency", "× reinforcement", "memory")
    for hit in explanation.recall.hits:
        numbers = (f"{hit.score:.5f}", f"{hit.relevance:.5f}", f"{hit.recency:.3f}", f"{hit.reinforcement:.3f}")
        table.add_row(*numbers, Text(shown(hit.id), overflow="fold"))
    return table
