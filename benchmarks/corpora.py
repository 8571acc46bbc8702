"""Stores of any size with the texts of a corpus and a real model's vectors, in place of drawn ones."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from figures import positive
from generated import Shape, World, unit

from lore_retriever.errors import InvalidInput


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
    parser.add_argument("--memories", type=positive, default=memories)
    parser.add_argument("--organisations", type=positive, default=organisations)
    parser.add_argument(
        "--dimensions", type=positive, help=f"of drawn vectors, {dimensions:,} if left out; not with --corpus"
    )
    parser.set_defaults(drawn_dimensions=dimensions)
    parser.add_argument(
        "--corpus", type=Path, help="a suite's folder: its texts, with a model's vectors, for drawn ones"
    )
    parser.add_argument("--model", default="offline", help="offline, minilm, e5, or a folder or name")
    parser.add_argument(
        "--cache", type=Path, help="file that keeps the vectors, so that a second run costs no model time"
    )
    parser.add_argument(
        "--passages", type=positive, default=2_000, help="take this many of the corpus, the same ones each time"
    )


def world_of(given: argparse.Namespace) -> World:
    """The world that these arguments describe; `given.dimensions` becomes the model's where there is a corpus."""
    if given.corpus is None:
        given.dimensions = given.dimensions or given.drawn_dimensions
        return World(Shape(given.memories, given.organisations, given.dimensions))
    if given.dimensions is not None:
        raise InvalidInput(
            f"--dimensions is {given.dimensions}; with --corpus the model's own are taken. Leave it out."
        )
    from measured import model_of, spread_evenly, suite_of, windows_of  # what a model needs, where there is one

    documents = suite_of(given.corpus).documents
    embedder = model_of(given.model, given.cache)
    given.dimensions = embedder.space.dimensions
    windows = [window for document in documents for window in windows_of(document.text, embedder) if window.strip()]
    if not windows:
        raise InvalidInput(f"{given.corpus} holds no text.")
    passages = spread_evenly(windows, given.passages)
    vectors = np.asarray(embedder.embed_texts(passages), dtype=np.float32)
    return CorpusWorld(Shape(given.memories, given.organisations, given.dimensions), passages, vectors)
