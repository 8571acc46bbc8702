"""Limits on what comes in. Every refusal names the limit and the value seen."""

MAX_CONTENT_CHARS = 2_000_000
"""Characters of one memory."""

MAX_ID_CHARS = 512
"""Characters of a memory's id."""

MAX_NAME_CHARS = 512
"""Characters of an organisation, user, kind, agent, session, source, trust or alias."""

MAX_METADATA_CHARS = 262_144
"""Characters of one memory's metadata as JSON."""

MAX_METADATA_DEPTH = 32
"""Levels of nesting in metadata."""

MAX_QUERY_CHARS = 20_000
"""Characters of one query that a search reads; the rest is cut and `Recall.degraded` says so."""

MAX_QUERIES = 8
"""Queries of one recall."""

MAX_LIMIT = 1_000
"""Hits that one recall may ask for."""

MAX_WINDOW_CHARS = 1_200
"""Characters of one window, and of a hit that comes whole."""
