"""Finds texts that say the same in nearly the same words. Pure and deterministic."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

__all__ = ["NEAR_DUPLICATE", "duplicates_of", "word_resemblance", "words_of"]

NEAR_DUPLICATE = 0.8
"""Share of two texts' word triples that they have in common, from which on the later one is left out."""

_SHORT = 12
"""Up to so many words a single other word changes what is said: such texts must be equal."""

_WORD = re.compile(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
_DIGIT = re.compile(r"\d")
_NEGATION_WORDS = """
not no never none without cannot nor isn aren wasn weren don doesn didn won wouldn shouldn couldn
nicht kein keine nie ohne ne pas jamais sans non nunca sin não нет не без 不 没 无 非
"""
_NEGATIONS = frozenset(_NEGATION_WORDS.split())


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, folded; single characters in scripts that write no spaces; symbols where it has no word."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return tuple(_WORD.findall(folded)) or tuple(folded.split())


def word_resemblance(one: str, other: str) -> float:
    """Share of the words of two texts that both have, in [0, 1]."""
    first, second = set(words_of(one)), set(words_of(other))
    both = len(first & second)
    return both / (len(first) + len(second) - both) if both else 0.0


def _triples(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    return frozenset(zip(words, words[1:], words[2:], strict=False))


def duplicates_of(texts: Sequence[str], *, least: float = NEAR_DUPLICATE) -> list[int | None]:
    """For each text the place of the first earlier one that it repeats, or None.

    Equal but for case, punctuation and white space counts at any length. Longer texts also count from `least`
    on, unless they differ in a number, an identifier or a negation: "port 8080" is not "port 8081".
    """
    found: list[int | None] = []
    first_of: dict[tuple[str, ...], int] = {}
    holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
    words: list[tuple[str, ...]] = []
    parts: list[frozenset[tuple[str, ...]]] = []
    for place, text in enumerate(texts):
        words.append(words_of(text))
        parts.append(_triples(words[place]) if len(words[place]) > _SHORT else frozenset())
        same = first_of.setdefault(words[place], place)
        match: int | None = same
        if same == place:
            near = _near(parts, holders, least)
            match = next((other for other in near if _telling(words[other]) == _telling(words[place])), None)
            for part in parts[place] if match is None else ():
                holders[part].append(place)
        found.append(match)
    return found


def _near(
    parts: Sequence[frozenset[tuple[str, ...]]], holders: Mapping[tuple[str, ...], list[int]], least: float
) -> list[int]:
    """The earlier texts that resemble the last one, first ones first."""
    last = parts[-1]
    shared = Counter(other for part in last for other in holders.get(part, ()))
    return sorted(other for other, both in shared.items() if both >= least * (len(last) + len(parts[other]) - both))


def _telling(words: Sequence[str]) -> tuple[str, ...]:
    """The words whose change turns a statement into another: numbers, identifiers, negations."""
    return tuple(word for word in words if word in _NEGATIONS or _DIGIT.search(word))
