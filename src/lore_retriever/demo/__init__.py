"""A small invented corpus and questions to try on it: what `lore-retriever demo` shows."""

from lore_retriever.demo.load import (
    DEMO_AS_OF,
    DemoMemory,
    DemoQuestion,
    demo_memories,
    demo_memories_by_scope,
    demo_questions,
)

__all__ = [
    "DEMO_AS_OF",
    "DemoMemory",
    "DemoQuestion",
    "demo_memories",
    "demo_memories_by_scope",
    "demo_questions",
]
