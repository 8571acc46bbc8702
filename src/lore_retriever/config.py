"""The knobs of the search, as `fusion_config` stores them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["FusionConfig"]


class FusionConfig(BaseModel):
    """One row of `fusion_config`. The defaults are what a store without a row uses.

    Values enter the database through the evaluation harness (`lore-retriever eval accept`) alone.

    Attributes:
        rrf_k: Constant of reciprocal rank fusion, `weight / (rrf_k + rank)`. Cormack et al., SIGIR 2009: 60.
        pool_multiplier: Candidates each leg may propose, for one wanted hit.
        vector_weight, exact_weight, relaxed_weight, alias_weight: Weight of each leg; 0 switches it off.
        identifier_weight: Weight of the exact leg for a memory that carries an identifier of the query: 4/61 is more
            than first places in all three other legs together.
        identifier_rows: An identifier that more visible memories carry is an ordinary word.
        relaxed_coverage: Share of the query's idf that a memory's words must carry to enter the relaxed pool.
        relaxed_proposals: The rarest stems propose until their document frequencies sum to this; to two thirds of it where
            there are few memories.
        relaxed_stems: Most stems of a query that count, the rarest.
        bm25_k1, bm25_b: Term saturation and length normalisation of BM25.
        near_miss_similarity: Least trigram similarity of a near miss in spelling.
        near_miss_penalty: What the idf of a near miss is multiplied with; 0 switches near misses off.
        scan_numbers: Windows times dimensions that an exact scan may read; beyond, codes propose.
        code_candidates: Windows that codes propose for exact re-ranking.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rrf_k: int = Field(60, ge=1, le=1000)
    pool_multiplier: int = Field(4, ge=1, le=20)
    vector_weight: float = Field(1, ge=0, le=100)
    exact_weight: float = Field(1, ge=0, le=100)
    relaxed_weight: float = Field(1, ge=0, le=100)
    alias_weight: float = Field(1, ge=0, le=100)
    identifier_weight: float = Field(4, ge=0, le=100)
    identifier_rows: int = Field(10, ge=0, le=1000)
    relaxed_coverage: float = Field(0.2, ge=0, le=1)
    relaxed_proposals: int = Field(300, ge=10, le=100_000)
    relaxed_stems: int = Field(32, ge=1, le=256)
    bm25_k1: float = Field(1.2, ge=0, le=10)
    bm25_b: float = Field(0.75, ge=0, le=1)
    near_miss_similarity: float = Field(0.45, ge=0.1, le=1)
    near_miss_penalty: float = Field(0.6, ge=0, le=1)
    scan_numbers: int = Field(4_000_000, ge=0)
    code_candidates: int = Field(1000, ge=10, le=100_000)
