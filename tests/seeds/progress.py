"""Statements that wait for their test. It only shrinks: an id that a test carries fails here until it is taken out."""

NOT_YET_PROVED: frozenset[str] = frozenset()
