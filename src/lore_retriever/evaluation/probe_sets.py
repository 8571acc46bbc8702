"""The probes by name, as `eval run --probes` asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation import probes
from lore_retriever.evaluation.suites import Suite

__all__ = ["PROBES", "make_probes"]


def _cross_language(suite: Suite) -> tuple[Suite, ...]:
    is_parallel = any({"lang", "para"} <= document.metadata.keys() for document in suite.documents)
    return (probes.cross_language_probes(suite),) if is_parallel else ()


def _in_sentences(suite: Suite) -> Suite:
    asked = probes.inside_sentences(probes.identifier_probes(suite, size=100))
    return replace(asked, name=f"{suite.name}:in-sentences")


PROBES: Mapping[str, Callable[[Suite], tuple[Suite, ...]]] = {
    "identifiers": lambda suite: (probes.identifier_probes(suite),),
    "in-sentences": lambda suite: (_in_sentences(suite),),
    "misspelt": lambda suite: (probes.misspelling_probes(suite),),
    "edges": probes.edge_probes,
    "isolation": lambda suite: (probes.isolation_probes(suite),),
    "short-queries": lambda suite: (probes.short_query_probes(suite),),
    "cross-language": _cross_language,
}
"""What makes each kind of probe; `edges` gives two suites, head and tail."""


def make_probes(suite: Suite, names: Sequence[str] | None) -> list[Suite]:
    """The probes of these names that the corpus yields any of; `all` stands for all of them.

    Short queries come with the same questions whole, so that the two can be compared.

    Raises:
        InvalidInput: If a name is unknown.
    """
    wanted = list(PROBES) if "all" in (names or ()) else list(names or ())
    if unknown := sorted(set(wanted) - PROBES.keys()):
        raise InvalidInput(f"probes {unknown!r} are unknown; there are {[*PROBES, 'all']!r}.")
    made = [each for name in wanted for each in PROBES[name](suite) if each.queries]
    whole = [_whole(suite, each) for each in made if each.name.endswith(":short-queries")]
    return made + whole


def _whole(suite: Suite, short: Suite) -> Suite:
    asked = {query.id for query in short.queries}
    return suite.select(lambda query: query.id in asked, name=f"{suite.name}:the-same-whole")
