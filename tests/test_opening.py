"""A store opens with the embedder that its database records."""

from __future__ import annotations

import pytest

from lore_retriever import EmbeddingSpaceMismatch
from lore_retriever.embeddings import Embedder, EmbeddingSpace, OfflineEmbedder
from lore_retriever.opening import embedder_of
from lore_retriever.testing import HashEmbedder


@pytest.mark.parametrize("embedder", [HashEmbedder(7), OfflineEmbedder()])
def test_the_embedder_of_a_recorded_space_makes_vectors_of_that_space(embedder: Embedder) -> None:
    found = embedder_of(embedder.space)
    assert type(found) is type(embedder)
    assert found.space == embedder.space


@pytest.mark.parametrize(
    "space",
    [EmbeddingSpace("acme/own-model", "3", 12), EmbeddingSpace("intfloat/multilingual-e5-small", "other weights", 384)],
)
def test_a_space_whose_model_is_unknown_here_is_named(space: EmbeddingSpace) -> None:
    with pytest.raises(EmbeddingSpaceMismatch, match=space.revision):
        embedder_of(space)
