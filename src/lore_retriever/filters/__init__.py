"""One filter language for every surface: metadata and a memory's own fields, read from two dialects.

`parse_filter` reads the `$` language (LangChain, Python, psql), `parse_metadata_filters` LlamaIndex's
`MetadataFilters`; both give one tree. `to_json` prints it for the database, `evaluate` runs it in Python.
"""

from lore_retriever.filters.evaluate import evaluate
from lore_retriever.filters.langchain_dialect import parse_filter
from lore_retriever.filters.llamaindex_dialect import parse_metadata_filters
from lore_retriever.filters.tree import (
    MAX_FILTER_DEPTH,
    MAX_FILTER_NODES,
    MAX_FILTER_VALUES,
    MAX_PATTERN_CHARS,
    OPERATORS,
    SYSTEM_FIELDS,
    SYSTEM_PREFIX,
    And,
    Condition,
    Filter,
    Not,
    Or,
    to_json,
)

__all__ = [
    "MAX_FILTER_DEPTH",
    "MAX_FILTER_NODES",
    "MAX_FILTER_VALUES",
    "MAX_PATTERN_CHARS",
    "OPERATORS",
    "SYSTEM_FIELDS",
    "SYSTEM_PREFIX",
    "And",
    "Condition",
    "Filter",
    "Not",
    "Or",
    "evaluate",
    "parse_filter",
    "parse_metadata_filters",
    "to_json",
]
