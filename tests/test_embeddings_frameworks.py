"""Embedding classes of LangChain and LlamaIndex as embedders, and embedders as theirs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import TextNode

from lore_retriever.embeddings import (
    CallableEmbedder,
    Embedder,
    EmbeddingSpace,
    HashEmbedder,
    LangChainEmbedder,
    LlamaIndexEmbedder,
    Vector,
)
from lore_retriever.errors import InvalidInput
from lore_retriever.langchain.embeddings import as_langchain_embeddings
from lore_retriever.llamaindex.embeddings import as_llamaindex_embedding


class RecordingLangChain(Embeddings):
    """Vectors of length 5, another direction for queries; notes which method was called with what."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(("embed_documents", texts))
        return [[3.0, 4.0] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        self.calls.append(("embed_query", text))
        return [4.0, 3.0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(("aembed_documents", texts))
        return [[3.0, 4.0] for _ in texts]

    async def aembed_query(self, text: str) -> list[float]:
        self.calls.append(("aembed_query", text))
        return [4.0, 3.0]


class RecordingLlamaIndex(BaseEmbedding):
    """The same for LlamaIndex."""

    _calls: list[tuple[str, Any]] = PrivateAttr(default_factory=list)

    def _get_query_embedding(self, query: str) -> list[float]:
        self._calls.append(("query", query))
        return [4.0, 3.0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        self._calls.append(("aquery", query))
        return [4.0, 3.0]

    def _get_text_embedding(self, text: str) -> list[float]:
        self._calls.append(("text", text))
        return [3.0, 4.0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        self._calls.append(("atext", text))
        return [3.0, 4.0]


class Asynchronous(HashEmbedder):
    """A HashEmbedder with asynchronous methods of its own."""

    def __init__(self) -> None:
        super().__init__(8)
        self.awaited: list[str] = []

    async def aembed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        self.awaited.extend(texts)
        return self.embed_texts(texts)

    async def aembed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        self.awaited.extend(texts)
        return self.embed_queries(texts)


# --- from a framework to an embedder


def test_langchains_query_and_document_methods_are_kept_apart() -> None:
    inner = RecordingLangChain()
    embedder = LangChainEmbedder(inner, 2)
    assert isinstance(embedder, Embedder)
    assert embedder.embed_texts(["a", "b"]) == [[0.6, 0.8], [0.6, 0.8]]
    assert embedder.embed_queries(["q", "r"]) == [[0.8, 0.6], [0.8, 0.6]]
    assert inner.calls == [("embed_documents", ["a", "b"]), ("embed_query", "q"), ("embed_query", "r")]


async def test_langchains_asynchronous_methods_are_used() -> None:
    inner = RecordingLangChain()
    embedder = LangChainEmbedder(inner, 2)
    assert await embedder.aembed_texts(["a"]) == [[0.6, 0.8]]
    assert await embedder.aembed_queries(["q"]) == [[0.8, 0.6]]
    assert inner.calls == [("aembed_documents", ["a"]), ("aembed_query", "q")]


def test_llamaindexs_query_and_text_methods_are_kept_apart() -> None:
    inner = RecordingLlamaIndex()
    embedder = LlamaIndexEmbedder(inner, 2)
    assert isinstance(embedder, Embedder)
    assert embedder.embed_texts(["a", "b"]) == [[0.6, 0.8], [0.6, 0.8]]
    assert embedder.embed_queries(["q"]) == [[0.8, 0.6]]
    assert inner._calls == [("text", "a"), ("text", "b"), ("query", "q")]


async def test_llamaindexs_asynchronous_methods_are_used() -> None:
    inner = RecordingLlamaIndex()
    embedder = LlamaIndexEmbedder(inner, 2)
    assert await embedder.aembed_texts(["a"]) == [[0.6, 0.8]]
    assert await embedder.aembed_queries(["q"]) == [[0.8, 0.6]]
    assert inner._calls == [("atext", "a"), ("aquery", "q")]


def test_dimensions_are_measured_when_not_given() -> None:
    inner = RecordingLangChain()
    embedder = LangChainEmbedder(inner)
    assert inner.calls == []
    assert embedder.space == EmbeddingSpace("RecordingLangChain", "unversioned", 2)
    assert embedder.space.dimensions == 2
    assert len(inner.calls) == 1
    assert LlamaIndexEmbedder(RecordingLlamaIndex()).space.dimensions == 2
    assert LangChainEmbedder(DeterministicFakeEmbedding(size=6)).space.dimensions == 6


def test_the_space_bears_the_name_that_the_framework_class_knows() -> None:
    named = RecordingLangChain()
    named.model = "text-embedding-3-small"  # type: ignore[attr-defined]
    assert LangChainEmbedder(named, 2, revision="7").space == EmbeddingSpace("text-embedding-3-small", "7", 2)
    assert LangChainEmbedder(named, 2, model="mine").space.model == "mine"
    assert LlamaIndexEmbedder(RecordingLlamaIndex(model_name="bge"), 2).space.model == "bge"
    assert LlamaIndexEmbedder(RecordingLlamaIndex(), 2).space.model == "RecordingLlamaIndex"


def test_the_token_window_is_found_where_the_class_tells_it() -> None:
    told = RecordingLangChain()
    told.embedding_ctx_length = 8_191  # type: ignore[attr-defined]
    assert LangChainEmbedder(told, 2).max_tokens == 8_191
    assert LangChainEmbedder(told, 2, max_tokens=100).max_tokens == 100
    assert LangChainEmbedder(RecordingLangChain(), 2).max_tokens == 512


def test_without_a_tokenizer_tokens_are_never_counted_too_few() -> None:
    embedder = LangChainEmbedder(RecordingLangChain(), 2)
    assert embedder.count_tokens("漢字") >= 6
    assert LangChainEmbedder(RecordingLangChain(), 2, count_tokens=len).count_tokens("漢字") == 2


def test_the_tokenizer_of_a_local_model_is_found(tmp_path: Any) -> None:
    from transformers import BertTokenizerFast

    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "gateway"]))

    class LocalModel:
        max_seq_length = 64
        tokenizer = BertTokenizerFast(str(vocabulary))

    local = RecordingLangChain()
    local._client = LocalModel()  # type: ignore[attr-defined]
    embedder = LangChainEmbedder(local, 2)
    assert embedder.max_tokens == 64
    # [CLS] the gateway [SEP], and room for a prompt of 16 tokens
    assert embedder.count_tokens("the gateway") == 20


def test_a_query_longer_than_the_model_reads_is_embedded_in_parts() -> None:
    inner = RecordingLangChain()
    LangChainEmbedder(inner, 2, max_tokens=10, count_tokens=len).embed_queries(["aaaaaaaa bbbbbbbb "])
    assert inner.calls == [("embed_query", "aaaaaaaa "), ("embed_query", "bbbbbbbb ")]


def test_what_is_no_embedding_class_is_refused_by_its_type() -> None:
    with pytest.raises(InvalidInput, match="LangChainEmbedder was given a str, which has no embed_documents"):
        LangChainEmbedder("text-embedding-3-small")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="LlamaIndexEmbedder was given a RecordingLangChain"):
        LlamaIndexEmbedder(RecordingLangChain())  # type: ignore[arg-type]


# --- from an embedder to a framework


def test_an_embedder_serves_as_langchain_embeddings() -> None:
    embedder = HashEmbedder(8)
    embeddings = as_langchain_embeddings(embedder)
    assert isinstance(embeddings, Embeddings)
    assert embeddings.embed_documents(["a", "b"]) == embedder.embed_texts(["a", "b"])
    assert embeddings.embed_query("a") == embedder.embed_queries(["a"])[0]


async def test_langchain_embeddings_await_the_embedder_or_a_thread() -> None:
    own = Asynchronous()
    for embedder in (own, HashEmbedder(8)):
        embeddings = as_langchain_embeddings(embedder)
        assert await embeddings.aembed_documents(["a"]) == embedder.embed_texts(["a"])
        assert await embeddings.aembed_query("q") == embedder.embed_queries(["q"])[0]
    assert own.awaited == ["a", "q"]


def test_an_embedder_serves_as_llamaindex_embedding() -> None:
    embedder = HashEmbedder(8)
    embedding = as_llamaindex_embedding(embedder)
    assert isinstance(embedding, BaseEmbedding)
    assert embedding.model_name == "lore-retriever/hash"
    assert embedding.get_query_embedding("a") == embedder.embed_queries(["a"])[0]
    assert embedding.get_text_embedding("a") == embedder.embed_texts(["a"])[0]
    assert embedding.get_text_embedding_batch(["a", "b", "c"]) == embedder.embed_texts(["a", "b", "c"])
    [node] = embedding([TextNode(text="a")])
    assert node.embedding == embedder.embed_texts(["a"])[0]


async def test_llamaindex_embedding_awaits_the_embedder_or_a_thread() -> None:
    own = Asynchronous()
    for embedder in (own, HashEmbedder(8)):
        embedding = as_llamaindex_embedding(embedder)
        assert await embedding.aget_text_embedding_batch(["a"]) == embedder.embed_texts(["a"])
        assert await embedding.aget_query_embedding("q") == embedder.embed_queries(["q"])[0]
    assert own.awaited == ["a", "q"]


def test_queries_stay_queries_on_the_way_there_and_back() -> None:
    embedder = CallableEmbedder(
        lambda texts: [[1.0, 0.0]] * len(texts),
        embed_query=lambda texts: [[0.0, 1.0]] * len(texts),
        dimensions=2,
        model="mine",
        revision="3",
        max_tokens=99,
    )
    for back in (
        LangChainEmbedder(as_langchain_embeddings(embedder)),
        LlamaIndexEmbedder(as_llamaindex_embedding(embedder)),
    ):
        assert back.embed_texts(["a"]) == [[1.0, 0.0]]
        assert back.embed_queries(["a"]) == [[0.0, 1.0]]
        assert back.space == embedder.space
        assert back.max_tokens == embedder.max_tokens
        assert math.hypot(*back.embed_texts(["a"])[0]) == 1.0
