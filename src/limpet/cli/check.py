"""`limpet check`: what works on this host, why not, and how to mend it; what ended sandboxes left here, and its removal.

Asks each runtime to really run something.
"""

import json
import os
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio

from limpet import wiring
from limpet.config import load_config
from limpet.core.errors import LimpetError
from limpet.core.ports import Probe, Runtime
from limpet.runtimes.images import registry
from limpet.testing.run import run_suite
from limpet.testing.suite import Failed, GapClosed, KnownGap, Passed, Skipped

PATIENCE = 20.0  # a probe ends within 10 s by its port; beyond this it counts as one that does not


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the conformance suite found: how many promises were kept, not asked, known to be broken; and those that should be kept."""

    kept: int
    not_asked: int
    known_gaps: int
    broken: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.kept} kept, {len(self.broken)} broken, {self.known_gaps} known gaps, {self.not_asked} not asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found out about one runtime. `suite` is None where it was not run."""

    name: str
    works: bool
    detail: str
    remedy: str
    notes: tuple[str, ...]
    suite: Verdict | None = None

    @property
    def is_fine(self) -> bool:
        return self.works and (self.suite is None or not self.suite.broken)


def check(names: Sequence[str], *, suite: bool, as_json: bool) -> int:
    """Probe the runtimes of these names, or all, and show what was found. Returns 0 where those named work, or without names the
    one that the settings choose; else 1. With `suite` also every promise of the port is asked of those that work; a broken
    one counts as not working. Raises ConfigInvalid for a name or for settings that are wrong."""
    default = load_config().features.shell.type if not names else None
    wanted = list(names) or [*wiring.RUNTIMES, *wiring.added_runtimes()]
    findings = anyio.run(_find_out, wanted, suite)
    needed = [default] if default else wanted
    works = all(finding.is_fine for finding in findings if finding.name in needed)
    print(as_text(findings, default, width=_width()) if not as_json else _as_json(findings, default))
    return 0 if works else 1


def clean(*, dry_run: bool) -> int:
    """Remove what sandboxes that have ended left on this host, or with `dry_run` only show it. Sandboxes that live are spared,
    whichever program they belong to. Returns 0. Raises ConfigInvalid for settings that are wrong, OSError for what cannot be removed."""
    config = load_config()
    told = anyio.run(_sweep, config.home, dry_run)
    where = f"of the home directory {config.home}"
    print("\n".join(told) if told else f"Nothing is left of sandboxes that have ended, {where}.")
    return 0


async def _sweep(home: Path, dry_run: bool) -> list[str]:
    told = []
    for name in (*wiring.RUNTIMES, *wiring.added_runtimes()):
        async with wiring.load_runtime(name, where="limpet check", key="RUNTIME", home=home) as runtime:
            told += await runtime.sweep(None, dry_run=dry_run)
    return told


async def _find_out(names: Sequence[str], suite: bool) -> list[Finding]:
    """One after the other: each really starts something."""
    return [await _look_at(name, suite=suite) for name in names]


async def _look_at(name: str, *, suite: bool) -> Finding:
    runtime = wiring.load_runtime(name, where="limpet check", key="RUNTIME")
    probe = Probe(works=False, detail=f"It gave no answer within {PATIENCE:.0f} s.")
    verdict = None
    try:
        async with runtime:
            with anyio.move_on_after(PATIENCE):
                probe = await runtime.probe()
            if suite and probe.works:
                verdict = await _judge(runtime)
    except LimpetError as error:
        probe = Probe(works=False, detail=error.message)
    notes = (*probe.notes, *_about_images(name))
    return Finding(name=name, works=probe.works, detail=probe.detail, remedy=probe.remedy, notes=notes, suite=verdict)


def _about_images(runtime: str) -> tuple[str, ...]:
    """What is missing for images from registries, where that runtime takes them from Limpet's store."""
    reason = registry.missing() if runtime == "bubblewrap" else None
    return () if reason is None else (f"{reason}.",)


async def _judge(runtime: Runtime) -> Verdict:
    """Ask every promise; each takes 10 s at most, so a terminal shows that it goes on."""
    counts = {Passed: 0, Skipped: 0, KnownGap: 0}
    broken: dict[str, str] = {}
    gaps = wiring.known_gaps(runtime.name)
    with _room() as directory:
        async for case, result in run_suite(runtime, directory=directory, gaps=gaps):
            _show_progress(f"{runtime.name}: {case.name}")
            match result:
                case Failed(why):
                    broken[case.name] = why
                case GapClosed(reason):
                    broken[case.name] = f"it is kept, but listed as a known gap ({reason})"
                case _:
                    counts[type(result)] += 1
    _show_progress("")
    return Verdict(kept=counts[Passed], not_asked=counts[Skipped], known_gaps=counts[KnownGap], broken=broken)


@contextmanager
def _room() -> Iterator[Path]:
    """A directory to work in that lets boxes through, which run as users of their own."""
    with tempfile.TemporaryDirectory(prefix="limpet-check-") as name:
        directory = Path(name)
        directory.chmod(0o711)
        yield directory


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<100.100}\r", end="", file=sys.stderr, flush=True)


def _width() -> int | None:
    """Characters that fit on a line; None where no terminal shows it and the environment has no COLUMNS: then any number does."""
    is_shown = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return shutil.get_terminal_size().columns if is_shown else None


def as_text(findings: Sequence[Finding], default: str | None, *, width: int | None = None) -> str:
    """A table. Lines longer than `width` are broken between words, apart from a remedy that is a command: it stands on a line of
    its own, whole, so that it can be copied."""
    margin = max(len(finding.name) for finding in findings) + 2
    lines = []
    for finding in findings:
        mark = "works" if finding.works else "does not work"
        chosen = ", chosen" if finding.name == default else ""
        lines.append(_wrapped(f"{finding.name:<{margin}}{mark}{chosen}: {finding.detail}", margin, width))
        if finding.remedy:
            lines.append(_remedy(finding.remedy, margin, width))
        notes = [f"note: {note}" for note in finding.notes]
        lines += [_wrapped(" " * margin + line, margin, width) for line in [*notes, *_about_suite(finding.suite)]]
    lines.append(_wrapped(f"not built yet: {', '.join(wiring.RUNTIMES_TO_COME)}", len("not built yet: "), width))
    return "\n".join(lines)


def _remedy(remedy: str, margin: int, width: int | None) -> str:
    line = f"{'':<{margin}}to mend it: {remedy}"
    if width is None or len(line) <= width:
        return line
    is_sentence = remedy[:1].isupper() and remedy.endswith(".")
    return _wrapped(line, margin, width) if is_sentence else f"{'':<{margin}}to mend it:\n{remedy}"


def _wrapped(line: str, margin: int, width: int | None) -> str:
    """The line's parts under each other, the later ones indented. A word longer than a line stays whole."""
    if width is None or len(line) <= width:
        return line
    indent = " " * min(margin + 2, max(width // 2, 0))
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _about_suite(verdict: Verdict | None) -> list[str]:
    if verdict is None:
        return []
    return [f"promises: {verdict}", *(f"broken: {name}: {why}" for name, why in verdict.broken.items())]


def _as_json(findings: Sequence[Finding], default: str | None) -> str:
    shown: Mapping[str, object] = {
        "chosen": default,
        "runtimes": [asdict(finding) for finding in findings],
        "not_built": list(wiring.RUNTIMES_TO_COME),
    }
    return json.dumps(shown, indent=2)
