"""Which language a text is in, and which languages a model reads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from lore_retriever.embeddings.base import Embedder
from lore_retriever.errors import InvalidInput

__all__ = [
    "Detect",
    "LinguaDetector",
    "foreign_language",
    "guess_language",
    "language_of_words",
    "read_languages",
    "same_language",
]

Detect = Callable[[str], "str | None"]
"""The ISO 639-1 code of a text's language, or None where it cannot tell."""


def same_language(one: str, other: str) -> bool:
    """Whether two language tags name one language: `en-GB` and `en` do."""
    return re.split("[-_]", one.lower())[0] == re.split("[-_]", other.lower())[0]


class LinguaDetector:
    """Tells languages apart with lingua (the `language` extra), also in short texts.

    The models are loaded at the first use: seconds, and some 300 MB for the default languages.

    Args:
        languages: ISO 639-1 codes to choose from; each costs memory. Name those your texts are in.
        least_distance: How much likelier the first language must be than the second, from 0 to 0.99.

    Raises:
        ImportError: If lingua is not installed.
        InvalidInput: If lingua does not know a code, or fewer than two are given.
    """

    def __init__(self, languages: Sequence[str] = (), *, least_distance: float = 0.1) -> None:
        try:
            import lingua
        except ImportError as error:
            raise ImportError(
                'LinguaDetector needs lingua: pip install "lore-retriever[language]". Without it, guess_language tells'
                " common languages apart."
            ) from error
        codes = [code.lower() for code in languages or LANGUAGES]
        known = {language.iso_code_639_1.name.lower(): language for language in lingua.Language.all()}
        if unknown := [code for code in codes if code not in known]:
            raise InvalidInput(f"lingua knows no language {unknown[0]!r}; give ISO 639-1 codes, as in ['de', 'fr'].")
        if len(set(codes)) < 2:
            raise InvalidInput(f"languages is {list(languages)}; give two or more to choose from.")
        self._languages = [known[code] for code in codes]
        self._least_distance = least_distance

    @cached_property
    def _detector(self) -> Any:
        import lingua

        builder = lingua.LanguageDetectorBuilder.from_languages(*self._languages)
        return builder.with_minimum_relative_distance(self._least_distance).build()

    def __call__(self, text: str) -> str | None:
        """The code of the likeliest language, or None where two are about as likely."""
        found = self._detector.detect_language_of(text)
        return None if found is None else str(found.iso_code_639_1.name.lower())


LANGUAGES = (
    *("en", "de", "fr", "es", "it", "pt", "nl", "pl", "cs", "sv", "da", "tr"),
    *("ru", "uk", "el", "ar", "he", "hi", "th", "zh", "ja", "ko"),
)
"""What `LinguaDetector` chooses from unless told otherwise."""

_MOST_READ = 2_000
_NAME = re.compile(r"\S*\d\S*|\S*\w[_/\\@#:=.\-]\w\S*|`[^`]*`")
_WORD = re.compile(r"[^\W\d_]+")


def language_of_words(detect: Detect, text: str) -> str | None:
    """What a detector says of the words of a text; None where there are hardly any.

    Names of things are of no language: "ERR-4471" would be called Basque.
    """
    prose = _NAME.sub(" ", text[:_MOST_READ])
    words = [word for word in _WORD.findall(prose) if len(word) > 1]
    if len(words) < 2 and all(word.isascii() for word in words):
        return None
    return detect(prose)


_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\u1100-\u11ff\uac00-\ud7af]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
    ("el", re.compile("[\u0370-\u03ff\u1f00-\u1fff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
    ("uk", re.compile("[\u0404\u0406\u0407\u0454\u0456\u0457\u0490\u0491]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("zh", re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")),
)

_COMMON = {
    "en": "the of and to in is that it for was on are with as be at this have from or by not but what where when which how why who",
    "de": "der die das und ist nicht ein eine zu mit den von für auf im dem wird sich auch es an werden aus wie wo wann was hat nach bei wer warum",
    "fr": "le la les des et est une du en dans que pour pas qui sur au par avec ce il sont plus où quand comment ne aux cette quel pourquoi",
    "es": "el la los las de y en que es una por con para no se del al como más está son cuando dónde qué su lo cómo quién fue",
    "it": "il lo la gli le di e che è un una per con non si del della nel sono come dove quando più alla dal ma perché chi",
    "pt": "o a os as de e que é um uma do da em para com não por no na se mais como onde quando está são ao dos foi quem",
    "nl": "de het een en van is dat op te in niet zijn met voor aan er maar om als wordt bij waar wanneer hoe ook naar wie waarom",
    "pl": "i w na z nie się jest do to że o jak po co dla od przez przy są ale gdzie kiedy oraz który będzie tylko kto",
    "cs": "a se na je v že do to s z pro ne jsou jak ale by co kde kdy podle nebo při jako byl který kdo",
    "sv": "och i att det som en på är av för med den till inte om ett han var har de när men hur där från vem varför",
    "tr": "ve bir bu da de için ile ne çok daha gibi olan en var değil ama nasıl nerede olarak sonra kadar kim neden",
}
_COMMON_WORDS = {code: frozenset(words.split()) for code, words in _COMMON.items()}


def guess_language(text: str) -> str | None:
    """The language of a text by its script and its commonest words, or None where that is not plain. Needs no model.

    Knows eleven languages in Latin script and ten others; a single sentence is mostly enough, a few keywords are not.
    """
    letters = _WORD.findall(text[:_MOST_READ])
    size = sum(map(len, letters))
    joined = " ".join(letters)
    for code, script in _SCRIPTS:
        found = len(script.findall(joined))
        if found * 4 >= size > 0 or (code in ("ja", "uk") and found * 20 >= size > 0):
            return code
    words = [word.lower() for word in letters]
    hits = Counter({code: sum(word in common for word in words) for code, common in _COMMON_WORDS.items()})
    (best, most), (_, second) = hits.most_common(2)
    return best if most >= 2 and most * 10 >= len(words) and most > second else None


_ENGLISH_ONLY = re.compile(
    r"(^|/)(e5-(small|base|large)(-v2)?|bge-(small|base|large)-en(-v1\.5)?|gte-(small|base|large)|all-minilm-l\d+-v\d|"
    r"all-mpnet-base-v\d|multi-qa-[\w-]+|msmarco-[\w-]+|all-distilroberta-v\d)$",
    re.IGNORECASE,
)


def read_languages(embedder: Embedder | str) -> frozenset[str] | None:
    """The languages that a model was made for, as far as known: an embedder says so by an attribute `languages`.

    Args:
        embedder: An embedder, or a model's name. Common English-only models are known by name.

    Returns:
        ISO 639-1 codes; None for a model of many languages, and for one that is not known here.
    """
    if not isinstance(embedder, str):
        if told := getattr(embedder, "languages", None):
            return frozenset(told)
        embedder = embedder.space.model
    return frozenset({"en"}) if _ENGLISH_ONLY.search(embedder) else None


def foreign_language(embedder: Embedder, text: str) -> str | None:
    """The language of a text that the embedder was not made for; None where it was, or where that is not plain."""
    languages = read_languages(embedder)
    if languages is None:
        return None
    found = language_of_words(guess_language, text)
    return None if found is None or any(same_language(found, known) for known in languages) else found
