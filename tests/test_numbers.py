"""Vectors travel to the database in binary, and arrive as they were sent."""

from __future__ import annotations

import math
import random

import psycopg

from lore_retriever import driver
from lore_retriever.steps import Numbers

assert driver  # it tells psycopg how `Numbers` travel


def test_vectors_arrive_one_after_the_other_as_single_precision_numbers(empty_database: str) -> None:
    rng = random.Random(3)
    vectors = [[rng.uniform(-1, 1) for _ in range(70)] for _ in range(3)]
    with psycopg.connect(empty_database) as connection:
        row = connection.execute("SELECT %s::real[]", [Numbers(vectors)]).fetchone()
    assert row is not None
    sent = [number for vector in vectors for number in vector]
    assert len(row[0]) == len(sent)
    assert all(math.isclose(got, number, rel_tol=1e-6) for got, number in zip(row[0], sent, strict=True))


def test_a_vector_is_cut_out_of_them_and_becomes_a_halfvec(empty_database: str) -> None:
    with psycopg.connect(empty_database) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        sent = Numbers([[0.5, -0.25], (1.0, 0.125)])
        row = connection.execute("SELECT (%s::real[])[3:4]::halfvec::text", [sent]).fetchone()
    assert row == ("[1,0.125]",)
