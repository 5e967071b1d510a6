"""How far the work is: which promises are held, and which of them wait for their test.

A promise is *held* when its work is delivered or when it was kept early; every other one is *open*, and no test may carry it.
To deliver a work, add its letter to DELIVERED and the ids that have no test yet to NOT_YET_PROVED. To keep a promise of a later
work early, mark its test and add its id to EARLY.
"""

from tests.wire.manifest.promise import Promise, Work

DELIVERED: frozenset[Work] = frozenset({"A1", "A2", "B", "C", "D", "E"})
EARLY: frozenset[str] = frozenset()

# Held promises without a test. It only shrinks: an id that has a marked test fails here until it is taken out.
NOT_YET_PROVED: frozenset[str] = frozenset()


def is_held(promise: Promise) -> bool:
    """Whether a promise counts as kept; otherwise it is open."""
    return promise.owed_by in DELIVERED or promise.id in EARLY
