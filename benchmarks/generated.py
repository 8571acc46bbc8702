"""Data with the structure of real memories: organisations of Zipf sizes, topics, identifiers, some long texts.

Deterministic. Vectors are clusters in a latent space of 96 dimensions, off-centre as those of real models are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import psycopg

WORDS = 18_000
TOPICS = 2_000
LATENT = 96
LONG_SHARE = 0.05


@dataclass(frozen=True)
class Shape:
    """How much to generate."""

    memories: int = 100_000
    organisations: int = 200
    dimensions: int = 1024
    users: int = 12
    seed: int = 7


@dataclass(frozen=True)
class Question:
    """One query: its text, its unit vector, and on whose behalf it is asked."""

    org: str
    user: str
    text: str
    vector: np.ndarray
    memories_in_org: int
    source: str = ""
    """`org/id` of the memory that it was made from; empty where that is invalidated."""


class World:
    """Everything that is random, drawn once from the seed.

    Attributes:
        topic_count: Topics are numbers from 0 up to it.
    """

    topic_count = TOPICS

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.rng = np.random.default_rng(shape.seed)
        sizes = 1 / np.arange(1, shape.organisations + 1)
        self.sizes = np.maximum(1, np.round(sizes / sizes.sum() * shape.memories)).astype(int)
        self.words = _vocabulary(self.rng)
        weights = 1 / (np.arange(WORDS) + 2.7)
        self.word_bounds = np.cumsum(weights / weights.sum())
        self.word_bounds /= self.word_bounds[-1]
        self.topic_words = self.rng.integers(200, WORDS, size=(TOPICS, 40))
        latent = self.rng.normal(size=(TOPICS, LATENT)).astype(np.float32)
        self.basis = self.rng.normal(size=(LATENT, shape.dimensions)).astype(np.float32) / np.sqrt(LATENT)
        self.topics = latent
        # Real models' vectors share a direction: random pairs have a cosine of 0.75 to 0.87.
        self.offset = (
            2.2 * unit(self.rng.normal(size=(1, shape.dimensions)).astype(np.float32)) * np.sqrt(shape.dimensions)
        )

    def vectors(self, topics: np.ndarray, noise: float) -> np.ndarray:
        """Unit vectors near these topics, shape `(n, dimensions)`."""
        latent = self.topics[topics] + noise * self.rng.normal(size=(len(topics), LATENT)).astype(np.float32)
        return unit(latent @ self.basis + self.offset)

    def text(self, topic: int, length: int) -> str:
        """`length` words of a topic, with an identifier now and then."""
        common = self.word_bounds.searchsorted(self.rng.random(length), side="right")
        own = self.topic_words[topic][self.rng.integers(0, 40, size=length)]
        chosen = np.where(self.rng.random(length) < 0.25, own, common)
        return self.named([self.words[i] for i in chosen])

    def named(self, words: list[str]) -> str:
        """A text of these words, an identifier in place of one in 120 and of one more."""
        for place in self.rng.integers(0, len(words), size=1 + len(words) // 120):
            words[place] = f"ERR-{self.rng.integers(1000, 99999)}"
        return " ".join(words)

    def centre(self) -> np.ndarray:
        """The mean vector, as a model would ship it: of other draws than the data."""
        return self.vectors(self.rng.integers(0, self.topic_count, size=4000), 0.35).mean(axis=0)


def _vocabulary(rng: np.random.Generator) -> list[str]:
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "el", "or")]
    words: set[str] = set()
    while len(words) < WORDS:
        words.add("".join(rng.choice(syllables, size=rng.integers(2, 5))))
    return sorted(words)


def unit(vectors: np.ndarray) -> np.ndarray:
    """The same vectors with length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _binary_rows(rows: Iterator[tuple[bytes, ...]]) -> Iterator[bytes]:
    yield b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
    for row in rows:
        yield struct.pack(">h", len(row)) + b"".join(struct.pack(">i", len(field)) + field for field in row)
    yield struct.pack(">h", -1)


def halfvec_bytes(vector: np.ndarray) -> bytes:
    """The binary form of a halfvec."""
    return struct.pack(">hh", len(vector), 0) + vector.astype(">f2").tobytes()


@dataclass(frozen=True)
class Generated:
    """One memory of the benchmark."""

    org: str
    id: str
    user: str
    shared: bool
    kind: str
    text: str
    created_at: str
    gone: bool
    topic: int
    memories_in_org: int


def generate(world: World) -> list[Generated]:
    """All memories, organisation by organisation; the same list for the same seed."""
    rng = world.rng
    made = []
    for number, size in enumerate(world.sizes):
        for n in range(size):
            topic = int(rng.integers(0, world.topic_count))
            words = int(rng.integers(700, 1400)) if rng.random() < LONG_SHARE else int(rng.integers(60, 190))
            made.append(
                Generated(
                    org=f"org{number:03d}",
                    id=f"m{n}",
                    user=f"user{rng.integers(0, world.shape.users)}",
                    shared=bool(rng.random() < 0.55),
                    kind=("fact", "decision", "episode", "preference", "runbook")[int(rng.integers(0, 5))],
                    text=world.text(topic, words),
                    created_at=str(
                        np.datetime64("2026-01-01") - np.timedelta64(int(rng.exponential(120 * 86400)), "s")
                    ),
                    gone=bool(rng.random() < 0.08),
                    topic=topic,
                    memories_in_org=int(size),
                )
            )
    return made


def load(
    connection: psycopg.Connection, world: World, memories: list[Generated], *, space: int, after_key: int = 0
) -> None:
    """Fill the store's tables by COPY, as an administrator; `after_key` is the largest that is there."""
    columns = "org, id, owner, visibility, kind, content, created_at, updated_at, invalidated_at"
    with connection.cursor() as cursor, cursor.copy(f"COPY memories ({columns}) FROM STDIN") as copy:
        for m in memories:
            gone = m.created_at if m.gone else None
            visibility = "shared" if m.shared else "private"
            copy.write_row((m.org, m.id, m.user, visibility, m.kind, m.text, m.created_at, m.created_at, gone))
    load_vectors(connection, world, memories, space=space, after_key=after_key)


def load_vectors(
    connection: psycopg.Connection, world: World, memories: list[Generated], *, space: int, after_key: int = 0
) -> None:
    """One window for each 1,200 characters, a vector for each window; codes follow by trigger."""
    places = {"space": space, "orgs": sorted({m.org for m in memories}), "after": after_key}
    connection.execute(
        "INSERT INTO windows (org, space, key, ordinal, window_start, window_end)"
        " SELECT org, %(space)s::smallint, key, n, n * 1200, least(full_length, (n + 1) * 1200)"
        " FROM memories, generate_series(0, (full_length - 1) / 1200) AS n WHERE org = ANY (%(orgs)s) AND key > %(after)s",
        places,
    )
    topic_of = {(m.org, m.id): m.topic for m in memories}
    rows = connection.execute(
        "SELECT w.org, w.key, w.ordinal, m.id, m.owner, m.visibility = 'shared', m.invalidated_at IS NULL,"
        " (extract(epoch FROM m.created_at) * 1000000)::bigint - 946684800000000"
        " FROM windows w JOIN memories m USING (org, key) WHERE w.org = ANY (%(orgs)s) AND w.key > %(after)s"
        " ORDER BY w.org, w.key, w.ordinal",
        places,
    ).fetchall()

    def packed() -> Iterator[tuple[bytes, ...]]:
        for start in range(0, len(rows), 4096):
            part = rows[start : start + 4096]
            topics = np.array([topic_of[r[0], r[3]] for r in part])
            drifted = np.array([r[2] > 0 and world.rng.random() < 0.5 for r in part])
            topics = np.where(drifted, world.rng.integers(0, world.topic_count, size=len(part)), topics)
            for r, vector in zip(part, world.vectors(topics, 0.35), strict=True):
                yield (
                    r[0].encode(),
                    struct.pack(">h", space),
                    struct.pack(">q", r[1]),
                    struct.pack(">i", r[2]),
                    r[4].encode(),
                    struct.pack(">?", r[5]),
                    struct.pack(">?", r[6]),
                    struct.pack(">q", r[7]),
                    halfvec_bytes(vector),
                )

    columns = "org, space, key, ordinal, owner, shared, live, created_at, embedding"
    with connection.cursor() as cursor, cursor.copy(f"COPY vectors ({columns}) FROM STDIN (FORMAT binary)") as copy:
        for block in _binary_rows(packed()):
            copy.write(block)


def questions(world: World, memories: list[Generated], count: int, *, seed: int = 3) -> list[Question]:
    """Identifiers, short phrases and long questions in equal parts, asked by the owner of a memory.

    Half of them pick an organisation evenly, the rest a memory evenly (so large organisations more often).
    """
    rng = np.random.default_rng(seed)
    places: dict[str, list[int]] = {}
    for place, memory in enumerate(memories):
        places.setdefault(memory.org, []).append(place)
    orgs = sorted(places)
    made = []
    for n in range(count):
        org = orgs[int(rng.integers(0, len(orgs)))]
        source = memories[int(rng.choice(places[org]) if n % 2 else rng.integers(0, len(memories)))]
        words = source.text.split()
        if n % 3 == 0:
            text = next((word for word in words if word.startswith("ERR-")), words[0])
        elif n % 3 == 1:
            text = " ".join(rng.choice(words, size=3))
        else:
            text = "why does " + " ".join(rng.choice(words, size=9)) + " again"
        vector = world.vectors(np.array([source.topic]), 0.35)[0]
        known = "" if source.gone else f"{source.org}/{source.id}"
        made.append(Question(source.org, source.user, text, vector, source.memories_in_org, known))
    return made
