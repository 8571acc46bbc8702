"""Stores of any size with the texts of a corpus and a real model's vectors, in place of drawn ones."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from generated import Shape, World, unit


class CorpusWorld(World):
    """A topic is a passage of a corpus. A memory is made of its words, in their order, and its vector lies near that passage's.

    Args:
        passages: The texts, one for each topic.
        vectors: Their unit vectors, shape `(passages, dimensions)`.
    """

    def __init__(self, shape: Shape, passages: Sequence[str], vectors: np.ndarray) -> None:
        super().__init__(shape)
        self.topic_count = len(passages)
        self.passages = [passage.split() for passage in passages]
        self.topics = vectors
        self.mean = vectors.mean(axis=0)

    def vectors(self, topics: np.ndarray, noise: float) -> np.ndarray:
        """Those passages' vectors, each moved by `noise` times what another passage differs from the mean: as real ones differ."""
        others = self.topics[self.rng.integers(0, self.topic_count, size=len(topics))]
        return unit(self.topics[topics] + noise * (others - self.mean))

    def text(self, topic: int, length: int) -> str:
        """`length` words of the passage from a place on, over and over, with an identifier now and then."""
        words = self.passages[topic]
        start = int(self.rng.integers(0, len(words)))
        return self.named([words[(start + n) % len(words)] for n in range(length)])


def add_world(parser: argparse.ArgumentParser, *, memories: int, organisations: int, dimensions: int) -> None:
    """What a benchmark's data are: their size, and a corpus if they shall be real."""
    parser.add_argument("--memories", type=int, default=memories)
    parser.add_argument("--organisations", type=int, default=organisations)
    parser.add_argument("--dimensions", type=int, default=dimensions, help="of drawn vectors; a model has its own")
    parser.add_argument(
        "--corpus", type=Path, help="a suite's folder: its texts, with a model's vectors, for drawn ones"
    )
    parser.add_argument("--model", default="offline", help="of the corpus: offline, minilm, e5, or a folder or name")
    parser.add_argument(
        "--cache", type=Path, help="file that keeps the vectors, so that a second run costs no model time"
    )
    parser.add_argument(
        "--passages", type=int, default=2_000, help="take this many of the corpus, the same ones each time"
    )


def world_of(given: argparse.Namespace) -> World:
    """The world that these arguments describe; `given.dimensions` becomes the model's where there is a corpus."""
    if given.corpus is None:
        return World(Shape(given.memories, given.organisations, given.dimensions))
    from measured import model_of, suite_of, windows_of  # what a model needs, where there is one

    embedder = model_of(given.model, given.cache)
    given.dimensions = embedder.space.dimensions
    windows = [
        window for document in suite_of(given.corpus).documents for window in windows_of(document.text, embedder)
    ]
    windows = [window for window in windows if window.strip()]
    if given.passages < 1 or not windows:
        raise SystemExit(
            f"--passages is {given.passages} of the {len(windows)} in {given.corpus}; at least 1 is needed."
        )
    passages = windows[:: -(-len(windows) // given.passages)]
    vectors = np.asarray(embedder.embed_texts(passages), dtype=np.float32)
    return CorpusWorld(Shape(given.memories, given.organisations, given.dimensions), passages, vectors)
