"""Questions generated from a corpus itself, each with a known answer.

All are pure and repeatable: the same suite, size and seed give the same probes.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.suites import Document, Qrels, Query, Suite

__all__ = [
    "SENTENCES",
    "cross_language_probes",
    "edge_probes",
    "find_identifiers",
    "identifier_probes",
    "inside_sentences",
    "isolation_probes",
    "misspelling_probes",
    "short_query_probes",
    "title_of",
    "translated_probes",
    "unanswerable_probes",
]

SENTENCES: tuple[str, ...] = (
    "why did {} come back after the deploy?",
    "{} showed up again on the second node last night, what was the fix?",
    "please collect everything that we know about {} for the review",
)
"""Questions around an identifier. Their own words should pull other documents up, as a real question's do."""

_FUNCTION_WORDS = """
a about after all an and any are as at be been before between both but by can could did do does
for from had has have he her his how i if in into is it its me more most my of on or our out
over she so than that the their them then there these they this those to under up was we were
what when where which while who whose why will with would you your
"""

FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English words that join others and say little alone: where a question is cut into phrases."""

T = TypeVar("T")

_PARTS = r"[A-Za-z0-9]+"
_IDENTIFIER = re.compile(
    rf"(?<![\w./:@-])(?:/?{_PARTS}(?:[-_./:@]{_PARTS})+|{_PARTS})(?![\w@]|[-_./:]\w)",
)
_HUMPS = re.compile(r"(?:[A-Z]+[a-z0-9]+){3,}[A-Z]*")
_COUNTED = re.compile(r"\d+(?:s|th|-[a-z-]+)")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")


def find_identifiers(text: str) -> set[str]:
    """The names in a text that a person would paste: ids, codes, hosts, paths, versions, CamelCase names.

    At least five characters, with a letter among them. It counts when it holds a digit (but not `1900s` or
    `3-year-old`), an underscore, two slashes, dots, colons or at signs, or three humps
    (`KubePodCrashLooping`).
    """
    return {match.group() for match in _IDENTIFIER.finditer(text) if _is_identifier(match.group())}


def identifier_probes(suite: Suite, *, size: int = 300, max_documents: int = 3, seed: int = 0) -> Suite:
    """Bare identifiers that at most `max_documents` texts of their scope hold; those texts are relevant."""
    holders: dict[tuple[str | None, str], list[str]] = defaultdict(list)
    for document in suite.documents:
        for name in sorted(find_identifiers(document.text)):
            holders[document.scope, name].append(document.id)
    rare = [key for key, ids in sorted(holders.items(), key=_by_scope) if len(ids) <= max_documents]
    drawn = _draw(rare, size, seed)
    queries = [Query(f"identifier:{n}", (name,), scope=scope) for n, (scope, name) in drawn]
    qrels = {q.id: dict.fromkeys(holders[q.scope, q.text], 1) for q in queries}
    return _probes(suite, "identifiers", queries, qrels)


def inside_sentences(suite: Suite, sentences: tuple[str, ...] = SENTENCES) -> Suite:
    """Every query of the suite inside each of the sentences; what is relevant stays the same.

    Raises:
        InvalidInput: If a sentence has no `{}` to put the query in.
    """
    for sentence in sentences:
        if "{}" not in sentence:
            raise InvalidInput(f"sentence {sentence!r} has no {{}}: mark where the query goes.")
    queries = [
        replace(query, id=f"{query.id}#sentence{n}", texts=(sentence.replace("{}", query.text),))
        for query in suite.judged
        for n, sentence in enumerate(sentences, start=1)
    ]
    qrels = {query.id: suite.qrels[query.id.rpartition("#")[0]] for query in queries}
    return _probes(suite, "in-sentences", queries, qrels)


def misspelling_probes(suite: Suite, *, size: int = 300, seed: int = 0, min_letters: int = 5) -> Suite:
    """Titles with one letter dropped, doubled, changed or swapped in one word of `min_letters` or more."""
    generator = random.Random(seed)
    titles = [(d, title) for d, title in _unique_titles(suite) if _long_words(title, min_letters)]
    queries, qrels = [], {}
    for number, (document, title) in _draw(titles, size, seed):
        start, end = generator.choice(_long_words(title, min_letters))
        text = title[:start] + _misspell(title[start:end], generator) + title[end:]
        query = Query(id=f"misspelt:{number}", texts=(text,), scope=document.scope, metadata={"title": title})
        queries.append(query)
        qrels[query.id] = {document.id: 1}
    return _probes(suite, "misspelt", queries, qrels)


def edge_probes(suite: Suite, *, size: int = 300, min_chars: int = 2_400, seed: int = 0) -> tuple[Suite, Suite]:
    """Sentences from the first and from the last tenth of long texts: head probes, tail probes.

    Both ask for the same texts, word for word, and a sentence stands in no other text of the corpus. What is
    cut off before it is embedded is lost to the tail probes alone.
    """
    everything = [document.text for document in suite.documents]
    long = [document for document in suite.documents if len(document.text) >= min_chars]
    pairs: list[tuple[Document, str, str]] = []
    for _, document in _draw(long, len(long), seed):
        tenth = len(document.text) // 10
        head = _unique_sentence(document.text[:tenth], everything)
        tail = _unique_sentence(document.text[-tenth:], everything)
        if head and tail:
            pairs.append((document, head, tail))
        if len(pairs) == size:
            break
    heads = _edge(suite, "head", [(document, head) for document, head, _ in pairs])
    tails = _edge(suite, "tail", [(document, tail) for document, _, tail in pairs])
    return heads, tails


def isolation_probes(suite: Suite, *, size: int = 100, seed: int = 0) -> Suite:
    """Texts that also exist, word for word, with another user and in another organisation.

    Each is asked for by its opening words; its own copy is relevant and both foreign copies are forbidden. The
    corpus holds the texts drawn and their copies, nothing else.
    """
    documents: list[Document] = []
    queries: list[Query] = []
    for number, document in _draw(suite.documents, size, seed):
        colleague = replace(document, id=f"{document.id}~colleague", owner="isolation-colleague")
        stranger = replace(document, id=f"{document.id}~stranger", scope="isolation-stranger")
        documents += [document, colleague, stranger]
        forbidden = frozenset({colleague.id, stranger.id})
        text = " ".join(document.text[:300].split()[:12])
        query = Query(f"isolation:{number}", (text,), scope=document.scope, forbidden=forbidden)
        queries.append(replace(query, metadata={"document": document.id}))
    qrels = {query.id: {query.metadata["document"]: 1} for query in queries}
    return _probes(replace(suite, documents=tuple(documents)), "isolation", queries, qrels)


def short_query_probes(suite: Suite, *, max_queries: int = 3) -> Suite:
    """The suite's own questions as two or three short noun phrases that are asked together.

    A question is cut at function words and punctuation; questions of fewer than two phrases are left out, so
    compare with `suite.select` on the same ids.
    """
    cut = [replace(query, texts=_phrases(query.text, max_queries)) for query in suite.queries]
    queries = [query for query in cut if len(query.texts) >= 2]
    return _probes(suite, "short-queries", queries, suite.qrels)


def cross_language_probes(
    suite: Suite, *, target: str = "en", language_key: str = "lang", parallel_key: str = "para"
) -> Suite:
    """The first sentence of every text that has a counterpart in the language `target`, looked up there.

    Args:
        language_key: Metadata that names a text's language.
        parallel_key: Metadata that translations of one text share.

    Raises:
        InvalidInput: If no text has a counterpart.
    """
    counterpart = {
        d.metadata.get(parallel_key): d.id for d in suite.documents if d.metadata.get(language_key) == target
    }
    queries, qrels = [], {}
    for document in suite.documents:
        answer = counterpart.get(document.metadata.get(parallel_key))
        if document.metadata.get(language_key) == target or answer is None:
            continue
        first = next(iter(_sentences(document.text)), document.text[:200])
        query = Query(f"cross:{document.id}", (first,), scope=document.scope, filter={language_key: target})
        queries.append(query)
        qrels[query.id] = {answer: 1}
    if not queries:
        raise InvalidInput(f"no text has a counterpart in {target!r}: they share {parallel_key!r}.")
    return _probes(suite, "cross-language", queries, qrels)


def translated_probes(suite: Suite, translate: Callable[[str], str], *, language: str) -> Suite:
    """The suite's own queries in another language, by a translator of yours; the corpus stays as it is."""
    queries = [
        replace(query, id=f"{query.id}#{language}", texts=tuple(translate(text) for text in query.texts))
        for query in suite.queries
    ]
    qrels = {f"{each}#{language}": grades for each, grades in suite.qrels.items()}
    return _probes(suite, language, queries, qrels)


def unanswerable_probes(suite: Suite, strangers: Suite, *, size: int = 300, seed: int = 0) -> Suite:
    """Another suite's questions asked of this corpus, which is taken to hold no answer to them.

    Each goes to one of this suite's scopes, with this suite's filter.
    """
    places = sorted({d.scope for d in suite.documents if d.owner is None}, key=lambda scope: scope or "")
    condition = suite.queries[0].filter if suite.queries else None
    queries = []
    for turn, (number, asked) in enumerate(_draw(strangers.queries, size, seed)):
        scope = places[turn % len(places)]
        query = Query(f"no-answer:{number}", asked.texts, scope, filter=condition, answerable=False)
        queries.append(query)
    return _probes(suite, "no-answer", queries, {})


def title_of(document: Document) -> str | None:
    """The title in the metadata, or the first line when it is a heading or at most 120 characters."""
    title = document.metadata.get("title")
    if isinstance(title, str) and title.strip():
        return title.strip()
    first = document.text.lstrip().partition("\n")[0].strip()
    heading = first.lstrip("#").strip()
    return heading if heading and any(c.isalpha() for c in heading) and len(heading) <= 120 else None


def _is_identifier(token: str) -> bool:
    if len(token) < 5 or not any(c.isalpha() for c in token):
        return False
    if any(c.isdigit() for c in token):
        return not _COUNTED.fullmatch(token)
    separators = [c for c in token if not c.isalnum() and c != "-"]
    return "_" in separators or len(separators) >= 2 or bool(_HUMPS.fullmatch(token))


def _by_scope(item: tuple[tuple[str | None, str], list[str]]) -> tuple[str, str]:
    return item[0][0] or "", item[0][1]


def _draw(items: Iterable[T], size: int, seed: int) -> list[tuple[int, T]]:
    """Up to `size` of the items in a random but repeatable order, each with its place among all."""
    numbered = list(enumerate(items))
    return random.Random(seed).sample(numbered, min(size, len(numbered)))


def _probes(suite: Suite, what: str, queries: Iterable[Query], qrels: Qrels) -> Suite:
    return replace(suite, name=f"{suite.name}:{what}", queries=tuple(queries), qrels=qrels)


def _unique_titles(suite: Suite) -> list[tuple[Document, str]]:
    titled = [(d, title) for d in suite.documents if (title := title_of(d)) is not None]
    seen: dict[tuple[str | None, str], int] = defaultdict(int)
    for document, title in titled:
        seen[document.scope, title.casefold()] += 1
    return [(d, title) for d, title in titled if seen[d.scope, title.casefold()] == 1]


def _long_words(text: str, min_letters: int) -> list[tuple[int, int]]:
    spans = [match.span() for match in re.finditer(r"[A-Za-z]+", text)]
    return [(start, end) for start, end in spans if end - start >= min_letters]


def _misspell(word: str, generator: random.Random) -> str:
    # The first letter stays: people seldom mistype it.
    edits = [
        lambda i: word[:i] + word[i + 1 :],
        lambda i: word[:i] + word[i] + word[i:],
        lambda i: word[:i] + generator.choice("aeinorst") + word[i + 1 :],
        lambda i: word[: i - 1] + word[i] + word[i - 1] + word[i + 1 :] if i > 1 else word,
    ]
    while True:
        edited = generator.choice(edits)(generator.randrange(1, len(word)))
        if edited.casefold() != word.casefold():
            return edited


def _sentences(text: str) -> Iterator[str]:
    for part in _SENTENCE_END.split(text):
        sentence = part.strip()
        if 40 <= len(sentence) <= 300 and len(_WORD.findall(sentence)) >= 5:
            yield sentence


def _unique_sentence(part: str, everything: list[str]) -> str | None:
    # The first and last piece of a tenth are cut anywhere, so they are not whole sentences.
    for sentence in sorted(list(_sentences(part))[1:-1] or list(_sentences(part)), key=len, reverse=True)[:4]:
        if sum(text.count(sentence) for text in everything) == 1:
            return sentence
    return None


def _edge(suite: Suite, what: str, pairs: Iterable[tuple[Document, str]]) -> Suite:
    queries, qrels = [], {}
    for document, sentence in pairs:
        query = Query(f"{what}:{document.id}", (sentence,), scope=document.scope)
        queries.append(query)
        qrels[query.id] = {document.id: 1}
    return _probes(suite, what, queries, qrels)


def _phrases(text: str, most: int) -> tuple[str, ...]:
    phrases: list[list[str]] = [[]]
    for token in re.findall(r"[\w'’./:@-]*\w|[^\w\s]", text):
        if token.casefold() in FUNCTION_WORDS or not any(c.isalnum() for c in token):
            phrases.append([])
        else:
            phrases[-1].append(token)
    full = [phrase for phrase in phrases if phrase]
    while len(full) > most:
        # The two shortest neighbours become one, so that no word of the question is lost.
        i = min(range(len(full) - 1), key=lambda n: len(full[n]) + len(full[n + 1]))
        full[i : i + 2] = [full[i] + full[i + 1]]
    return tuple(" ".join(phrase) for phrase in full)
