"""A hit as flat metadata for a host's documents, and the way back: reserved keys that set a memory's fields.

Both frameworks use it; it knows neither. Every value is a JSON scalar, and every key starts with `lore_`, so that a
prompt template or a filter can name it and no metadata of a user's own can stand in its way.
"""

from collections.abc import Mapping
from typing import Any, Final

from lore_retriever.errors import InvalidInput
from lore_retriever.inputs import RESERVED_PREFIX
from lore_retriever.types import Hit, LegName, Recall

__all__ = [
    "ADAPTER_KIND",
    "DERIVED_KEYS",
    "WRITE_KEYS",
    "annotations",
    "excerpt_marks",
    "refuse_excerpt",
    "reserved_fields",
]

ADAPTER_KIND: Final = "document"
"""What a framework's adapter writes when no kind is given; it never fades."""

WRITE_KEYS: Final[Mapping[str, str]] = {
    "lore_kind": "kind",
    "lore_visibility": "visibility",
    "lore_created_at": "created_at",
    "lore_pinned": "pinned",
    "lore_aliases": "aliases",
    "lore_source": "source",
    "lore_agent": "agent",
    "lore_session": "session",
    "lore_expires_at": "expires_at",
    "lore_trust": "trust",
    "lore_language": "language",
}
"""Reserved metadata keys that set a field of the memory on write, and the field of `NewMemory` each sets."""

DERIVED_KEYS: Final = frozenset(
    {
        "lore_id",
        "lore_rank",
        "lore_score",
        "lore_relevance",
        "lore_recency",
        "lore_reinforcement",
        "lore_strength",
        "lore_truncated",
        "lore_full_length",
        "lore_excerpt_start",
        "lore_excerpt_end",
        "lore_owner",
        "lore_updated_at",
        "lore_vector_rank",
        "lore_exact_rank",
        "lore_relaxed_rank",
        "lore_alias_rank",
        "lore_similarity",
        "lore_exact_score",
        "lore_relaxed_score",
        "lore_alias",
        "lore_recall_id",
        "lore_omitted",
        "lore_degraded",
    }
)
"""Reserved metadata keys that a search or a read writes; on a document that is stored again they are ignored."""


def annotations(hit: Hit, recall: Recall) -> dict[str, str | int | float | bool | None]:
    """Everything a search says of one hit, under flat `lore_` keys.

    Returns:
        The hit's id, place and excerpt, its score with the parts it is the product of, each leg's rank and measure
        (None where the leg did not propose it), kind, owner and dates (ISO 8601). `lore_omitted` and
        `lore_degraded` are there only where hits were left out, or a leg did not run.
    """
    marks: dict[str, str | int | float | bool | None] = {
        "lore_id": hit.id,
        "lore_rank": hit.rank,
        "lore_score": hit.score,
        "lore_relevance": hit.relevance,
        "lore_recency": hit.recency,
        "lore_reinforcement": hit.reinforcement,
        "lore_strength": hit.strength,
        **excerpt_marks(hit),
        "lore_kind": hit.kind,
        "lore_visibility": hit.visibility,
        "lore_owner": hit.owner,
        "lore_pinned": hit.pinned,
        "lore_created_at": hit.created_at.isoformat(),
        "lore_updated_at": hit.updated_at.isoformat(),
        "lore_vector_rank": _rank(hit, "vector"),
        "lore_exact_rank": _rank(hit, "exact"),
        "lore_relaxed_rank": _rank(hit, "relaxed"),
        "lore_alias_rank": _rank(hit, "alias"),
        "lore_similarity": _value(hit, "vector"),
        "lore_exact_score": _value(hit, "exact"),
        "lore_relaxed_score": _value(hit, "relaxed"),
        "lore_alias": hit.legs["alias"].matched if "alias" in hit.legs else None,
        "lore_recall_id": recall.id,
    }
    if recall.omitted:
        marks["lore_omitted"] = recall.omitted
    if recall.degraded is not None:
        marks["lore_degraded"] = recall.degraded
    return marks


def excerpt_marks(hit: Hit) -> dict[str, str | int | float | bool | None]:
    """Which part of its memory a hit's text is: `lore_truncated`, the full length, and the span in code points."""
    start, end = hit.span
    return {
        "lore_truncated": hit.truncated,
        "lore_full_length": hit.full_length,
        "lore_excerpt_start": start,
        "lore_excerpt_end": end,
    }


def _rank(hit: Hit, leg: LegName) -> int | None:
    return hit.legs[leg].rank if leg in hit.legs else None


def _value(hit: Hit, leg: LegName) -> float | None:
    return hit.legs[leg].value if leg in hit.legs else None


def reserved_fields(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Metadata as it is to be stored, and the fields of `NewMemory` that its reserved keys set.

    Keys of `WRITE_KEYS` become fields (None stands for "not given"); keys of `DERIVED_KEYS` are dropped, so that a
    document that a search returned can be stored again. `metadata` itself is not changed. Any other key that starts
    with `lore_` stays, and is refused when the memory is written.

    Raises:
        InvalidInput: If `metadata` is no mapping.
    """
    if not isinstance(metadata, Mapping):
        raise InvalidInput(f"metadata is {metadata!r}; give a mapping of names to JSON values.")
    kept = {key: value for key, value in metadata.items() if key not in WRITE_KEYS and key not in DERIVED_KEYS}
    fields = {WRITE_KEYS[key]: value for key, value in metadata.items() if key in WRITE_KEYS and value is not None}
    if isinstance(fields.get("aliases"), str):
        fields["aliases"] = (fields["aliases"],)
    return kept, fields


def refuse_excerpt(id: str | None, metadata: Mapping[str, Any]) -> None:  # noqa: A002 (a memory's id)
    """Refuse to store an excerpt under the id of the memory it was cut from: the rest would be lost in silence.

    Raises:
        InvalidInput: If `metadata` marks the text as an excerpt of the memory `id`.
    """
    if id is not None and metadata.get("lore_truncated") is True and metadata.get("lore_id", id) == id:
        raise InvalidInput(
            f"the text for {id!r} is an excerpt of {metadata.get('lore_full_length', 'more')} characters, and storing it under"
            f" that id would lose the rest. Read the whole memory by its id, or drop {RESERVED_PREFIX}truncated to mean it."
        )
