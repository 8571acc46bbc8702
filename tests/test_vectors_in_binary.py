"""Vectors travel to the database in binary, and arrive as they were sent."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import psycopg
import pytest

from lore_retriever import driver
from lore_retriever.steps import HalfVectors

assert driver  # it tells psycopg how `HalfVectors` travel


@pytest.fixture
def connection(empty_database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(empty_database) as opened:
        opened.execute("CREATE EXTENSION IF NOT EXISTS vector")
        yield opened


def arrived(connection: psycopg.Connection, vectors: list[list[float]]) -> list[list[float]]:
    (oid,) = connection.execute("SELECT 'halfvec'::regtype::oid").fetchone() or (0,)
    sent = HalfVectors(vectors, oid)
    rows = connection.execute(
        "SELECT v::real[] FROM unnest(%s::halfvec[]) WITH ORDINALITY AS g(v, n) ORDER BY n", [sent]
    )
    return [row[0] for row in rows]


def test_vectors_arrive_in_order_with_the_eleven_bits_of_a_half_precision_number(
    connection: psycopg.Connection,
) -> None:
    rng = random.Random(3)
    sent = [[rng.uniform(-1, 1) for _ in range(70)] for _ in range(3)]
    got = arrived(connection, sent)
    assert [len(vector) for vector in got] == [70] * 3
    pairs = [pair for one, other in zip(got, sent, strict=True) for pair in zip(one, other, strict=True)]
    assert all(math.isclose(here, there, rel_tol=2**-11, abs_tol=2**-25) for here, there in pairs)


def test_vectors_of_another_length_and_none_at_all_arrive_too(connection: psycopg.Connection) -> None:
    assert arrived(connection, [[0.5, -0.25], [1.0, 0.125, 0.0]]) == [[0.5, -0.25], [1.0, 0.125, 0.0]]
    assert arrived(connection, []) == []
