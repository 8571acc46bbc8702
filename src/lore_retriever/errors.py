"""Every error that lore-retriever raises on purpose.

```
LoreError
├── InvalidInput (ValueError)      a value that no search or write can use; names it and the way out
│   └── IdTaken                    the id already names a shared memory of a colleague
├── NotFound (KeyError)            no memory of that id is visible to this scope
├── PermissionDenied               the connection or the scope may not do this
├── ScopeMissing                   no organisation or user was given
├── EmbeddingSpaceMismatch         the embedder and the store's vectors do not belong together
├── EmbeddingFailed                the embedder raised, or returned vectors that cannot be stored
├── SchemaMismatch                 the database is not migrated, or behind, ahead or edited
└── StoreUnavailable               the database cannot be reached, or did not answer in time
```
Driver errors pass through unchanged where this package knows no more than the driver.
"""

__all__ = [
    "EmbeddingFailed",
    "EmbeddingSpaceMismatch",
    "IdTaken",
    "InvalidInput",
    "LoreError",
    "NotFound",
    "PermissionDenied",
    "SchemaMismatch",
    "ScopeMissing",
    "StoreUnavailable",
]


class LoreError(Exception):
    """Base of every error raised by lore-retriever."""


class InvalidInput(LoreError, ValueError):
    """A value that cannot be used; the message names it and what to do instead."""


class IdTaken(InvalidInput):
    """The id already names a shared memory of a colleague; among shared memories ids are unique."""


class NotFound(LoreError, KeyError):
    """No memory of that id is visible here; another's private id looks the same as an unknown one."""

    def __str__(self) -> str:
        # KeyError would print the repr of the message.
        return Exception.__str__(self)


class PermissionDenied(LoreError):
    """The connection or the scope has no right to do this; the message names the call that has."""


class ScopeMissing(LoreError):
    """No organisation or user was given: without a scope there are no rows."""


class EmbeddingSpaceMismatch(LoreError):
    """The embedder's space is not the one that the store's vectors live in."""


class EmbeddingFailed(LoreError):
    """The embedder raised, or returned vectors of the wrong number, length or with non-finite values."""


class SchemaMismatch(LoreError):
    """The database's schema is missing, behind, ahead of this package, or was edited."""


class StoreUnavailable(LoreError):
    """The database could not be reached or did not answer in time."""
