"""How much of what matters a briefing holds, beside other ways to spend the same tokens.

    python benchmarks/briefing.py FOLDER…                     # suites in the layout of `lore-retriever eval`
    python benchmarks/briefing.py FOLDER --kind episode       # conversation turns: fading kind, asked at the end of each scope
    python benchmarks/briefing.py FOLDER --cache vectors.sqlite --database "host=…"    # an administrator's connection

For every judged query, the *matching passage* of each relevant memory is looked up: of the memory's window closest to the
query, the stretch of whole sentences, up to 300 characters, that is closest by the store's own model. Printed is the share of these
passages that stand inside, word for word, at each budget:

  build_context        what this package makes, everything counted: first line, fences, ids, dates
  whole, fused         (a) whole records in the order of `recall`, as many as fit, longer ones skipped
  excerpts, vector     (b) the closest window of each record in the order of exact cosine, as many as fit
  LlamaIndex Memory    (c) `Memory` with a `VectorMemoryBlock` over the same windows and vectors, with the largest
                           `similarity_top_k` that it does not drop for being over its limit

(a) and (b) are bare text: no ids, no dates, nothing that says where one record ends. No labelled text in the same order can
hold more of short records than (a) does: what it holds more is what labels cost. `labelled` are the same with each record
under its id and, where it fades, its date, so that an answer can be cited and dated. Tokens are counted by the embedder's tokenizer.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from figures import positive, run_command
from measured import model_of, spread_evenly

from lore_retriever import MemoryStore
from lore_retriever.admin import StoreAdmin
from lore_retriever.context import Counter, counter_of
from lore_retriever.embeddings import Embedder
from lore_retriever.evaluation.laboratory import scope_of
from lore_retriever.evaluation.loading import load_suite
from lore_retriever.evaluation.specs import open_suites
from lore_retriever.evaluation.suites import Query, Suite
from lore_retriever.windows import split_windows

BUDGETS = (500, 1000, 2000, 4000)
PASSAGE_CHARS = 300
FUSED_HITS = 120
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_SPACE = re.compile(r"\s+")

Ids = Sequence[str]
Fill = Callable[[Query, int], str]
"""What a system puts into a prompt for a query and a budget of tokens."""


@dataclass(frozen=True)
class Window:
    """One window of one document, as text."""

    document: str
    text: str


class Corpus:
    """A suite's windows and their vectors, by scope, and the passages that answer its queries."""

    def __init__(self, suite: Suite, embedder: Embedder) -> None:
        self.suite = suite
        self.texts = {document.id: document.text for document in suite.documents}
        self._embedder = embedder
        self.windows: dict[str | None, list[Window]] = {}
        for document in suite.documents:
            spans = split_windows(document.text, max_tokens=embedder.max_tokens, count_tokens=embedder.count_tokens)
            found = [Window(document.id, document.text[span.start : span.end]) for span in spans]
            self.windows.setdefault(document.scope, []).extend(found)
        self._ranked: dict[str, list[Window]] = {}
        self._passages: dict[str, dict[str, str]] = {}
        self._vectors = {scope: self._embedded([w.text for w in found]) for scope, found in self.windows.items()}

    def _embedded(self, texts: Sequence[str]) -> Any:
        return np.asarray(self._embedder.embed_texts(texts), dtype=np.float32)

    def asked(self, query: Query) -> Any:
        """The query's vector."""
        return np.asarray(self._embedder.embed_queries([query.texts[0]])[0], dtype=np.float32)

    def ranked(self, query: Query) -> list[Window]:
        """Every window of the query's scope, closest first; ties in the order of the corpus."""
        if query.id not in self._ranked:
            order = np.argsort(-(self._vectors[query.scope] @ self.asked(query)), kind="stable")
            self._ranked[query.id] = [self.windows[query.scope][place] for place in order]
        return self._ranked[query.id]

    def passages(self, query: Query) -> dict[str, str]:
        """The matching passage of each relevant document of a query."""
        if query.id in self._passages:
            return self._passages[query.id]
        wanted = {each for each in self.suite.relevant(query.id) if each in self.texts}
        closest: dict[str, str] = {}
        for window in self.ranked(query):
            if window.document in wanted:
                closest.setdefault(window.document, window.text)
        self._passages[query.id] = {name: self._closest_stretch(query, text) for name, text in closest.items()}
        return self._passages[query.id]

    def _closest_stretch(self, query: Query, text: str) -> str:
        stretches = list(_stretches(text))
        if len(stretches) == 1:
            return stretches[0]
        return stretches[int((self._embedded(stretches) @ self.asked(query)).argmax())]


def _stretches(text: str) -> Iterator[str]:
    """Whole sentences, as many as stay within the limit; a longer one alone, cut."""
    held = ""
    for sentence in (part.strip() for part in _SENTENCE_END.split(text)):
        if held and len(held) + 1 + len(sentence) > PASSAGE_CHARS:
            yield held[:PASSAGE_CHARS]
            held = ""
        held = f"{held} {sentence}".strip()
    yield held[:PASSAGE_CHARS]


def flat(text: str) -> str:
    """The text with its white space made one, so that line breaks do not decide."""
    return _SPACE.sub(" ", text).strip()


def filled(parts: Sequence[str], budget: int, counter: Counter) -> str:
    """As many of the parts as fit, in order, a blank line between them; those that do not fit are skipped."""
    chosen: list[str] = []
    used = 0
    for part in parts:
        cost = counter.of_part(part + "\n\n")
        if used + cost <= budget:
            chosen.append(part)
            used += cost
    return "\n\n".join(chosen)


class Systems:
    """The ways to spend a budget."""

    def __init__(self, corpus: Corpus, store: MemoryStore, counter: Counter, *, at_end: bool) -> None:
        self._corpus = corpus
        self._store = store
        self._counter = counter
        self._ends = _ends(corpus.suite) if at_end else {}
        self._dates = {
            each.id: each.created_at.date().isoformat()
            for each in corpus.suite.documents
            if each.created_at is not None and each.kind not in (None, "document")
        }
        self._fused: dict[str, Ids] = {}
        self._vector: dict[str, list[Window]] = {}

    def all(self) -> dict[str, Fill]:
        """Every system by name."""
        made: dict[str, Fill] = {
            "build_context": self.ours,
            "whole, fused": lambda query, budget: self._filled(self._whole(query), budget),
            "whole, fused, labelled": lambda query, budget: self._filled(self._whole(query, labelled=True), budget),
            "excerpts, vector": lambda query, budget: self._filled(self._excerpts(query), budget),
            "excerpts, vector, labelled": lambda query, budget: self._filled(
                self._excerpts(query, labelled=True), budget
            ),
        }
        try:
            import llama_index.core  # noqa: F401
        except ImportError:
            print("llama-index-core is not installed: its row is left out")
        else:
            made["LlamaIndex Memory"] = LlamaIndexMemory(self._corpus, self._counter).fill
        return made

    def ours(self, query: Query, budget: int) -> str:
        """The briefing on a query."""
        made = self._view(query).build_context(
            query.texts, max_tokens=budget, filter=query.filter, as_of=self._as_of(query)
        )
        return made.text

    def _view(self, query: Query) -> Any:
        scope = scope_of(self._corpus.suite, query.scope)
        return self._store.as_user(scope.org, scope.user)

    def _as_of(self, query: Query) -> Any:
        end = self._ends.get(query.scope)
        return query.as_of if end is None else end + timedelta(seconds=1)

    def _filled(self, parts: Sequence[str], budget: int) -> str:
        return filled(parts, budget, self._counter)

    def _whole(self, query: Query, *, labelled: bool = False) -> list[str]:
        if query.id not in self._fused:
            found = self._view(query).recall(
                query.texts, limit=FUSED_HITS, filter=query.filter, as_of=self._as_of(query)
            )
            self._fused[query.id] = [hit.id for hit in found.hits]
        texts = self._corpus.texts
        return [f"{self._label(each)}\n{texts[each]}" if labelled else texts[each] for each in self._fused[query.id]]

    def _excerpts(self, query: Query, *, labelled: bool = False) -> list[str]:
        if query.id not in self._vector:
            closest: dict[str, Window] = {}
            for window in self._corpus.ranked(query):
                closest.setdefault(window.document, window)
            self._vector[query.id] = list(closest.values())[:FUSED_HITS]
        return [f"{self._label(w.document)}\n{w.text}" if labelled else w.text for w in self._vector[query.id]]

    def _label(self, document: str) -> str:
        date = self._dates.get(document)
        return document if date is None else f"{document} {date}"


def _ends(suite: Suite) -> dict[str | None, Any]:
    """The time of the last document of each scope."""
    ends: dict[str | None, Any] = {}
    for document in suite.documents:
        if document.created_at is not None:
            ends[document.scope] = max(ends.get(document.scope, document.created_at), document.created_at)
    return ends


class LlamaIndexMemory:
    """LlamaIndex's `Memory` with a `VectorMemoryBlock`, on the same windows and vectors."""

    def __init__(self, corpus: Corpus, counter: Counter) -> None:
        from llama_index.core.embeddings import MockEmbedding
        from llama_index.core.memory import Memory, VectorMemoryBlock

        self._corpus = corpus
        self._counter = counter
        self._loop = asyncio.new_event_loop()
        self._store = _nearest_of()
        self._block = VectorMemoryBlock(vector_store=self._store, embed_model=MockEmbedding(embed_dim=2))
        self._memory = Memory.from_defaults(
            token_limit=1_000_000, memory_blocks=[self._block], tokenizer_fn=lambda text: [0] * counter.count(text)
        )

    def fill(self, query: Query, budget: int) -> str:
        """What the memory adds to a prompt, with the largest `similarity_top_k` that stays within the budget."""
        windows = self._corpus.ranked(query)[:FUSED_HITS]
        costs = [self._counter.of_part(window.text) for window in windows]
        fitting = next((n for n in range(len(costs)) if sum(costs[: n + 1]) > budget), len(costs))
        for top_k in range(fitting, 0, -1):
            self._store.nearest = [window.text for window in windows[:top_k]]
            self._block.similarity_top_k = top_k
            messages = self._loop.run_until_complete(self._memory.aget(input=query.texts[0]))
            text = "\n".join(str(message.content) for message in messages if message.role == "system")
            if self._counter.count(text) <= budget:
                return text
        return ""


def _nearest_of() -> Any:
    """A vector store that answers with texts that were ranked already."""
    from llama_index.core.schema import TextNode
    from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQueryResult

    class Nearest(BasePydanticVectorStore):
        stores_text: bool = True
        nearest: list[str] = []  # noqa: RUF012 (a pydantic field)

        @property
        def client(self) -> Any:
            return None

        def add(self, nodes: Any, **kwargs: Any) -> list[str]:
            raise NotImplementedError

        def delete(self, ref_doc_id: str, **kwargs: Any) -> None:
            raise NotImplementedError

        def query(self, query: Any, **kwargs: Any) -> VectorStoreQueryResult:
            nodes = [TextNode(text=text) for text in self.nearest[: query.similarity_top_k]]
            return VectorStoreQueryResult(nodes=nodes, similarities=[1.0] * len(nodes), ids=[n.node_id for n in nodes])

    return Nearest()


def shares(corpus: Corpus, queries: Sequence[Query], fill: Fill, budget: int) -> list[float]:
    """For each query the share of its matching passages that stand inside."""
    found = []
    for query in queries:
        text = flat(fill(query, budget))
        inside = [flat(passage) in text for passage in corpus.passages(query).values()]
        found.append(sum(inside) / len(inside))
    return found


def interval(ours: Sequence[float], theirs: Sequence[float], *, rounds: int = 2000) -> tuple[float, float]:
    """95 % of the mean difference, by paired bootstrap over queries, seed 0."""
    differences = np.asarray(ours) - np.asarray(theirs)
    draw = random.Random(0)
    means = sorted(float(np.mean(draw.choices(differences.tolist(), k=len(differences)))) for _ in range(rounds))
    return means[int(0.025 * rounds)], means[int(0.975 * rounds)]


def report(suite: Suite, store: MemoryStore, embedder: Embedder, budgets: Sequence[int], *, at_end: bool) -> None:
    """Print the table of one suite."""
    corpus = Corpus(suite, embedder)
    queries = [query for query in suite.judged if corpus.passages(query)]
    counter = counter_of(None, embedder)
    counter = replace(counter, count=cache(counter.count))
    print(f"\n## {suite.name}: {len(queries)} queries, tokens by {counter.name}\n")
    print("| | " + " | ".join(f"{budget:,}" for budget in budgets) + " |")
    print("|---|" + "--:|" * len(budgets), flush=True)
    first: dict[int, list[float]] = {}
    for name, fill in Systems(corpus, store, counter, at_end=at_end).all().items():
        cells = []
        for budget in budgets:
            found = shares(corpus, queries, fill, budget)
            cell = f"{np.mean(found):.3f}"
            if budget in first:
                low, high = interval(first[budget], found)
                cell += f" (ours {low:+.3f} to {high:+.3f})"
            else:
                first[budget] = found
            cells.append(cell)
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Load the suites, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="suites, as `lore-retriever eval run` takes them")
    parser.add_argument("--kind", help="kind of every memory; its scopes are then asked at their last date")
    parser.add_argument("--model", default="offline", help="offline, minilm, e5, or a sentence-transformers name")
    parser.add_argument("--cache", type=Path, help="file that keeps the vectors between runs")
    parser.add_argument("--database", help="an administrator's connection string; else a database of its own is made")
    parser.add_argument("--budgets", nargs="+", type=positive, default=list(BUDGETS))
    parser.add_argument("--queries", type=positive, help="only so many judged queries, evenly spread")
    given = parser.parse_args()
    suites = [_prepared(suite, given.kind, given.queries) for suite in open_suites(given.folders)]
    with tempfile.TemporaryDirectory() as folder:
        embedder = model_of(given.model, given.cache or Path(folder) / "vectors.sqlite")
        if given.database:
            StoreAdmin.connect(given.database).migrate(embedder)
            store = MemoryStore.connect(given.database, embedder=embedder)
        else:
            store = MemoryStore.embedded(f"{folder}/database", embedder=embedder)
        with store:
            for suite in suites:
                if load_suite(suite, store):
                    StoreAdmin.connect(given.database).maintain() if given.database else store.maintain()
                report(suite, store, embedder, given.budgets, at_end=given.kind is not None)


def _prepared(suite: Suite, kind: str | None, most: int | None) -> Suite:
    documents = suite.documents if kind is None else tuple(replace(each, kind=kind) for each in suite.documents)
    return replace(suite, documents=documents, queries=spread_evenly(suite.judged, most))


if __name__ == "__main__":
    run_command(main)
