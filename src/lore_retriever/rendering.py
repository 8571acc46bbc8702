"""Results as HTML, for notebooks and pages: one card a hit, one chip a leg. Pure; every text is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from lore_retriever.types import LEGS, Hit, LegMatch, LegName, Recall

if TYPE_CHECKING:
    from lore_retriever.explanation import Explanation

__all__ = ["explanation_html", "leg_strength", "recall_html"]

_COLOURS: dict[str, str] = {"vector": "#2563eb", "exact": "#b45309", "relaxed": "#047857", "alias": "#7c3aed"}


def leg_strength(match: LegMatch) -> float:
    """How strongly a leg speaks for a hit, from its rank: 1.0 at rank 1, falling as fusion weighs it (60 + rank)."""
    return 61 / (60 + match.rank)


def _chip(leg: LegName, match: LegMatch | None) -> str:
    if match is None:
        return f'<span style="opacity:.35;border:1px solid #999;border-radius:9px;padding:0 6px">{leg}</span>'
    value = "" if match.value is None else f" · {match.value:.3f}"
    matched = "" if match.matched is None else f" · {escape(match.matched)}"
    strength = leg_strength(match)
    style = f"background:{_COLOURS[leg]};opacity:{0.4 + 0.6 * strength:.2f};color:white;border-radius:9px;padding:0 6px"
    return f'<span style="{style}" title="rank {match.rank}">{leg} #{match.rank}{value}{matched}</span>'


def _card(hit: Hit) -> str:
    chips = " ".join(_chip(leg, hit.legs.get(leg)) for leg in LEGS)
    span = f" · characters {hit.span[0]}–{hit.span[1]} of {hit.full_length}" if hit.truncated else ""
    return (
        '<div style="border:1px solid #ddd;border-radius:6px;padding:6px 10px;margin:6px 0">'
        f"<div><b>{hit.rank}. {escape(hit.id)}</b> · {escape(hit.kind)} · {hit.score:.5f} · {hit.strength}{span}</div>"
        f'<div style="margin:3px 0">{chips}</div>'
        f'<div style="white-space:pre-wrap">{escape(hit.text)}</div></div>'
    )


def recall_html(recall: Recall) -> str:
    """A result as cards, best first."""
    asked = " · ".join(escape(text) for text in recall.queries)
    notes = []
    if recall.degraded:
        notes.append(f"degraded: {escape(recall.degraded)}")
    if recall.omitted:
        notes.append(f"{recall.omitted} omitted")
    note = f'<div style="color:#b91c1c">{" · ".join(notes)}</div>' if notes else ""
    head = f"<div><i>{asked}</i> · {len(recall.hits)} hits · evidence {recall.evidence}</div>"
    return f"<div>{head}{note}{''.join(_card(hit) for hit in recall.hits)}</div>"


def explanation_html(explanation: Explanation) -> str:
    """A result taken apart: what each leg looked for and proposed, then the cards."""
    return f"<pre>{escape(str(explanation))}</pre>{recall_html(explanation.recall)}"
