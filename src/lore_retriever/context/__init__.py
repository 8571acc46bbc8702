"""Briefings: memories within a budget of tokens, quoted as data. Pure; `operations.briefing` reads the memories."""

from lore_retriever.context.assembly import Request, assemble
from lore_retriever.context.candidates import TASK_KINDS, Candidate
from lore_retriever.context.counting import Counter, CountTokens, counter_of

__all__ = ["TASK_KINDS", "Candidate", "CountTokens", "Counter", "Request", "assemble", "counter_of"]
