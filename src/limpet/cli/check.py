"""`limpet check`: what works on this host, why not, and how to mend it. Asks each runtime to really run something."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import anyio

from limpet import wiring
from limpet.config import load_config
from limpet.core.errors import LimpetError
from limpet.core.ports import Probe

PATIENCE = 20.0  # a probe ends within 10 s by its port; beyond this it counts as one that does not


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found out about one runtime."""

    name: str
    works: bool
    detail: str
    remedy: str
    notes: tuple[str, ...]


def check(names: Sequence[str], *, suite: bool, as_json: bool) -> int:
    """Probe the runtimes of these names, or all, and show what was found. Returns 0 where those named work, or without names the
    one that the settings choose; else 1. Raises ConfigInvalid for a name or for settings that are wrong."""
    default = load_config().features.shell.type if not names else None
    wanted = list(names) or list(wiring.RUNTIMES)
    findings = anyio.run(_probe_all, wanted)
    needed = [default] if default else wanted
    works = all(finding.works for finding in findings if finding.name in needed)
    print(as_text(findings, default) if not as_json else _as_json(findings, default))
    return 0 if works else 1


async def _probe_all(names: Sequence[str]) -> list[Finding]:
    """One after the other: each really starts something."""
    return [await _probe(name) for name in names]


async def _probe(name: str) -> Finding:
    runtime = wiring.load_runtime(name, where="limpet check", key="RUNTIME")
    probe = Probe(works=False, detail=f"It gave no answer within {PATIENCE:.0f} s.")
    try:
        with anyio.move_on_after(PATIENCE):
            async with runtime:
                probe = await runtime.probe()
    except LimpetError as error:
        probe = Probe(works=False, detail=error.message)
    return Finding(name=name, works=probe.works, detail=probe.detail, remedy=probe.remedy, notes=probe.notes)


def as_text(findings: Sequence[Finding], default: str | None) -> str:
    """A table whose remedies can be copied: each stands on a line of its own, never broken."""
    width = max(len(finding.name) for finding in findings) + 2
    lines = []
    for finding in findings:
        mark = "works" if finding.works else "does not work"
        chosen = ", chosen" if finding.name == default else ""
        lines.append(f"{finding.name:<{width}}{mark}{chosen}: {finding.detail}")
        if finding.remedy:
            lines.append(f"{'':<{width}}to mend it: {finding.remedy}")
        lines += [f"{'':<{width}}note: {note}" for note in finding.notes]
    lines.append(f"not built yet: {', '.join(wiring.RUNTIMES_TO_COME)}")
    return "\n".join(lines)


def _as_json(findings: Sequence[Finding], default: str | None) -> str:
    shown: Mapping[str, object] = {
        "chosen": default,
        "runtimes": [asdict(finding) for finding in findings],
        "not_built": list(wiring.RUNTIMES_TO_COME),
    }
    return json.dumps(shown, indent=2)
