"""What a case is, and how one is run against a runtime. Knows no case."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from limpet.core.ports import Offer, Runtime
from limpet.testing.lab import Lab, open_lab

BOUND = 10.0

Check = Callable[[Lab], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One promise. `name` says it as a sentence; `check` raises if it is broken, in time."""

    name: str
    check: Check
    needs: frozenset[Offer]


@dataclass(frozen=True, slots=True)
class Passed:
    """The promise held."""


@dataclass(frozen=True, slots=True)
class _Explained:
    reason: str


class Skipped(_Explained):
    """It was not asked, since it rests on something that the runtime does not offer."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The promise was broken."""

    why: str


class KnownGap(_Explained):
    """The promise was broken, as the runtime's list of known gaps says."""


class GapClosed(_Explained):
    """The promise held although it is listed as a known gap: a failure, until the entry is taken off the list."""


Result = Passed | Skipped | Failed | KnownGap | GapClosed
Gaps = Mapping[str, str]
"""Known gaps of one runtime: a case's name, and the reason."""


@dataclass(slots=True)
class Cases:
    """A list of cases to which its decorator adds."""

    cases: list[Case] = field(default_factory=list)

    def case(self, *needs: Offer) -> Callable[[Check], Check]:
        """Register the decorated function under its own name; the case rests on these offers."""

        def register(check: Check) -> Check:
            self.cases.append(Case(name=check.__name__, check=check, needs=frozenset(needs)))
            return check

        return register


async def run_case(
    case: Case, runtime: Runtime, *, directory: Path, gaps: Gaps | None = None, bound: float = BOUND
) -> Result:
    """Ask an open runtime for one promise, in a fresh sandbox. `directory` is an empty host directory for this case; `bound`
    is how long it may take, in seconds."""
    missing = sorted(offer.value for offer in case.needs - runtime.offers)
    if missing:
        return Skipped(f"the runtime {runtime.name} does not offer {', '.join(missing)}")
    reason = (gaps or {}).get(case.name)
    why = await _why_broken(case, runtime, directory, bound)
    if why is None:
        return Passed() if reason is None else GapClosed(reason)
    return Failed(why) if reason is None else KnownGap(reason)


def unknown_gaps(gaps: Gaps, cases: Iterable[Case]) -> list[str]:
    """Entries of a list of gaps that name no case."""
    return sorted(set(gaps) - {case.name for case in cases})


async def _why_broken(case: Case, runtime: Runtime, directory: Path, bound: float) -> str | None:
    try:
        with anyio.fail_after(bound):
            async with open_lab(runtime, directory) as lab:
                await case.check(lab)
    except TimeoutError:
        return f"it took longer than {bound:g} s"
    except Exception as error:  # noqa: BLE001 (whatever it raises is the finding)
        return _sentence(error)
    return None


def _sentence(error: BaseException) -> str:
    with suppress(AttributeError, IndexError):
        while True:
            error = error.exceptions[0]  # type: ignore[attr-defined]  # the first of a group says enough
    return f"{type(error).__name__}: {error}"
