"""Why a search found what it found: what each leg proposed, the words it looked for, times, the SQL. Records."""

from __future__ import annotations

from collections.abc import Sequence

from lore_retriever.queries import query
from lore_retriever.steps import Row
from lore_retriever.types import LEGS, LegName, Recall, Record

__all__ = ["Explanation", "LegExplanation", "Proposal", "QueryExplanation", "Word", "explanation_from_rows"]


class Word(Record):
    """One stem that the relaxed leg looked for.

    Attributes:
        stem: As it stands in the index.
        asked: The query's own stem; another one than `stem` for a near miss in spelling.
        df: Visible memories that hold it.
        idf: Its weight in BM25, after the penalty of a near miss.
    """

    stem: str
    asked: str
    df: int
    idf: float

    @property
    def is_near_miss(self) -> bool:
        """Whether it is not the query's own word but one that is spelt nearly like it."""
        return self.stem != self.asked


class QueryExplanation(Record):
    """How one query was read.

    Attributes:
        identifiers: The names found in it, lower case.
        exact_query: The whole query as the exact leg asks it, in tsquery form.
        words: What the relaxed leg looked for, rarest first.
    """

    text: str
    identifiers: tuple[str, ...]
    exact_query: str
    words: tuple[Word, ...]


class Proposal(Record):
    """One memory that a leg proposed: its place, the leg's measure, and what matched."""

    id: str
    rank: int
    value: float | None
    matched: tuple[str, ...] = ()


class LegExplanation(Record):
    """What one leg proposed for one query, and how long it took."""

    leg: LegName
    query: int
    took_ms: float
    proposals: tuple[Proposal, ...]


class Explanation(Record):
    """A search taken apart. `recall` is its result; `sql` the statement that it ran."""

    queries: tuple[QueryExplanation, ...]
    legs: tuple[LegExplanation, ...]
    recall: Recall
    sql: str

    def leg(self, name: LegName, query: int = 0) -> LegExplanation:
        """What that leg proposed for that query."""
        return next(leg for leg in self.legs if leg.leg == name and leg.query == query)

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def _repr_html_(self) -> str:
        from lore_retriever.rendering import explanation_html

        return explanation_html(self)


def _lines(explanation: Explanation) -> list[str]:
    lines = []
    for number, asked in enumerate(explanation.queries):
        lines += [f"query {number}: {asked.text}", f"  exact:       {asked.exact_query or '(no words)'}"]
        if asked.identifiers:
            lines.append(f"  identifiers: {', '.join(asked.identifiers)}")
        for word in asked.words:
            near = f"  near miss of {word.asked!r}" if word.is_near_miss else ""
            lines.append(f"  word {word.stem!r}: in {word.df} memories, idf {word.idf:.2f}{near}")
        for leg in (leg for leg in explanation.legs if leg.query == number):
            lines.append(f"  {leg.leg}: {len(leg.proposals)} proposed in {leg.took_ms:.2f} ms")
            for proposal in leg.proposals[:10]:
                value = "" if proposal.value is None else f" {proposal.value:.4f}"
                matched = f"  ({', '.join(proposal.matched)})" if proposal.matched else ""
                lines.append(f"    {proposal.rank:>3} {proposal.id}{value}{matched}")
    for hit in explanation.recall.hits:
        ranks = " ".join(f"{leg} {match.rank}" for leg, match in hit.legs.items())
        lines.append(
            f"hit {hit.rank} {hit.id}: {hit.score:.6f} = {hit.relevance:.6f} × {hit.recency:.3f} ×"
            f" {hit.reinforcement:.3f}  [{ranks}]"
        )
    return lines


def explanation_from_rows(
    recall: Recall, queries: Sequence[Row], words: Sequence[Row], proposals: Sequence[Row]
) -> Explanation:
    """Rows of `explain_queries`, `explain_words` and `explain_legs` as one record. Pure."""
    asked = tuple(
        QueryExplanation(
            text=text,
            identifiers=tuple(row["identifiers"]),
            exact_query=row["exact_query"],
            words=tuple(
                Word(stem=w["stem"], asked=w["asked"], df=w["df"], idf=w["idf"])
                for w in words
                if w["query_no"] == row["query_no"]
            ),
        )
        for text, row in zip(recall.queries, queries, strict=True)
    )
    legs = tuple(
        _leg(name, number, [row for row in proposals if row["leg"] == name and row["query_no"] == number])
        for number in range(len(asked))
        for name in LEGS
    )
    return Explanation(queries=asked, legs=legs, recall=recall, sql=query("recall"))


def _leg(name: LegName, number: int, rows: Sequence[Row]) -> LegExplanation:
    proposals = tuple(
        Proposal(
            id=row["id"],
            rank=row["rank"],
            value=row["value"],
            matched=tuple(text for text in row["matched"] or () if text is not None),
        )
        for row in rows
        if row["id"] is not None
    )
    took = max((row["took_ms"] for row in rows), default=0.0)
    return LegExplanation(leg=name, query=number, took_ms=took, proposals=proposals)
