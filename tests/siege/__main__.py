"""`python -m tests.siege [ATTACK...]`: what one tenant's attack costs the others. Exits 1 where the promise was broken,
3 where others only waited longer than promised.

A gateway with ten tenants, nine of them at work, as root and as an ordinary user; from the tenth comes each attack of attacks/. The
promise: the nine others' commands keep a p99 under 1 s, /livez under 100 ms, no process ends that should not, memory comes back. A fault
is final. An attack during which others only waited too long is repeated, up to twice and each time by itself once the machine is calm: it
counts where they wait too long each time, unless the machine was never calm. The table shows all of it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

import anyio
from anyio import to_thread

from tests.siege.attack import SECONDS, TOO_SLOW, Target, TooSlow, load, names, title
from tests.siege.fortress import Fortress, assault, besieged, mcp_server
from tests.siege.judge import (
    MEMORY_BOUND,
    Durations,
    Siege,
    Window,
    comes_again,
    complaints,
    faults,
    is_calm,
    red,
    table,
)
from tests.siege.tenants import Record, Tenants

BROKEN, SLOW = 1, 3  # exit codes: others were harmed; others only waited longer than promised
ORDINARY_USER = 64_200  # of no entry in /etc/passwd, and of no other test
QUIET = 3.0  # seconds of the baseline
SETTLING = 30.0  # seconds that a busy machine gets before an attack is repeated
AFTERMATH = 1.0  # seconds that still count for an attack once it has stopped
RECOVERY = 15.0  # seconds in which memory has to come back
STOPPING = 3.0  # seconds that the attack's own process gets beyond its time


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.siege", description=__doc__)
    parser.add_argument("attack", nargs="*", help=f"only these of: {', '.join(names())}")
    parser.add_argument("--user", choices=["root", "ordinary"], action="append", help="only as this one")
    parser.add_argument("--results", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help="the attacks and what they are")
    asked = parser.parse_args()
    attacks = asked.attack or names()
    if unknown := [name for name in attacks if name not in names()]:
        parser.error(f"there is no attack {unknown[0]}")
    if asked.list:
        sys.stdout.writelines(f"{name:<24}{title(name)}\n" for name in attacks)
        return 0
    if asked.results is not None:
        baseline, sieges = anyio.run(_besiege, attacks)
        asked.results.write_text(json.dumps([asdict(baseline), [asdict(siege) for siege in sieges]]))
        return 0
    users = asked.user or (["root", "ordinary"] if os.geteuid() == 0 else ["ordinary"])
    codes = [_report_as(user, attacks) for user in users]
    return BROKEN if BROKEN in codes else max(codes)


def _report_as(user: str, attacks: Sequence[str]) -> int:
    """Run all of it as that user, in a process of its own, and print its table."""
    becomes: list[str] = []
    if user == "ordinary" and os.geteuid() == 0:
        number = str(ORDINARY_USER)
        becomes = ["setpriv", "--reuid", number, "--regid", number, "--clear-groups"]
    with tempfile.TemporaryDirectory(prefix="limpet-siege-") as directory:
        Path(directory).chmod(0o777)
        results = Path(directory) / "results"
        words = [*becomes, sys.executable, "-m", "tests.siege", "--results", str(results), *attacks]
        done = subprocess.run(words, env={**os.environ, "HOME": "/nonexistent"}, check=False)
        if done.returncode != 0:
            sys.stdout.write(f"The siege as {user} could not be held: exit code {done.returncode}.\n")
            return BROKEN
        baseline, sieges = json.loads(results.read_text())
    shown = [_siege(found, user) for found in sieges]
    sys.stdout.write("\n".join(table(_window(baseline), shown)) + "\n")
    sys.stdout.flush()
    if any(faults(siege) for siege in shown):
        return BROKEN
    return SLOW if red(shown) else 0


def _siege(found: dict[str, object], user: str) -> Siege:
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    return Siege(**{**values, "user": user, "during": _window(found["during"])})  # type: ignore[arg-type]  # as asdict left them


def _window(found: object) -> Window:
    assert isinstance(found, dict)
    commands, livez = (Durations(seconds=tuple(found[name]["seconds"])) for name in ("commands", "livez"))
    return Window(commands=commands, livez=livez, failures=tuple(found["failures"]))


async def _besiege(attacks: Sequence[str]) -> tuple[Window, list[Siege]]:
    """One fortress for all attacks; another where one of them has left too little of it, and for each that is repeated, at the end."""
    baseline: Window | None = None
    sieges: list[Siege] = []
    waiting = list(attacks)
    while waiting:
        with besieged() as fortress:
            async with Tenants(fortress.targets[1:]).at_work() as tenants:
                await anyio.sleep(0.5)
                window = await _settled(tenants)
                baseline, is_calm_now = baseline or window, is_calm(window)
                while waiting and not fortress.ended():
                    siege = await _one(waiting.pop(0), fortress, tenants, began_calm=is_calm_now)
                    is_calm_now = False  # seen before the first one only
                    sieges.append(siege)
                    for complaint in complaints(siege):
                        sys.stderr.write(f"{siege.attack}: {complaint}\n")
                    if comes_again(sieges, siege.attack):
                        waiting.append(siege.attack)
                    if complaints(siege) or (waiting and comes_again(sieges, waiting[0])):
                        break  # what it broke must not count against the next
    assert baseline is not None
    return baseline, sieges


async def _settled(tenants: Tenants) -> Window:
    """Wait until the machine is calm, within bounds. Returns what the tenants saw at last."""
    until = anyio.current_time() + SETTLING
    while True:
        window = await _watched(tenants, QUIET)
        if is_calm(window) or anyio.current_time() > until:
            return window


async def _watched(tenants: Tenants, seconds: float) -> Window:
    tenants.record = record = Record()
    await anyio.sleep(seconds)
    return record.window()


async def _one(name: str, fortress: Fortress, tenants: Tenants, *, began_calm: bool) -> Siege:
    module = load(name)
    with ExitStack() as stack:
        target = await to_thread.run_sync(fortress.fresh_attacker)
        if getattr(module, "MCP", False):
            address, _ = await to_thread.run_sync(stack.enter_context, mcp_server())
            target = replace(target, mcp=address)
        before = peak = fortress.memory()
        logged = fortress.log_size()
        begun = anyio.current_time()
        tenants.record = record = Record()
        attack = assault(name, target)
        stack.callback(attack.wait)
        stack.callback(attack.kill)
        ends_at = anyio.current_time() + getattr(module, "SECONDS", SECONDS) + STOPPING
        while attack.poll() is None and anyio.current_time() < ends_at:
            peak = max(peak, fortress.memory())
            await anyio.sleep(0.05)
        attack.kill()
        await anyio.sleep(AFTERMATH)
        broken, late = await to_thread.run_sync(_claims, module, target, attack.stderr)
        window, ended = record.window(), fortress.ended()
        after = await _recovered(fortress, target, before, is_over=bool(ended))
    return Siege(
        attack=name,
        user="",
        during=window,
        ended=tuple(ended),
        broken=tuple(broken),
        late=tuple(late),
        seconds=anyio.current_time() - begun,
        began_calm=began_calm,
        memory_before=before,
        memory_peak=max(peak, after),
        memory_after=after,
        logged=fortress.log_size() - logged,
    )


def _claims(module: object, target: Target, errors: object) -> tuple[list[str], list[str]]:
    """The attack's own claims that do not hold, with what kept it from attacking, and those that do not hold in time."""
    said = errors.read().decode(errors="replace").strip() if hasattr(errors, "read") else ""
    last = said.splitlines()[-1] if said else ""
    late = [last.removeprefix(TOO_SLOW)] if last.startswith(TOO_SLOW) else []
    broken = [f"the attack itself failed: {last}"] if last and not late else []
    holds = getattr(module, "holds", None)
    if holds is not None:
        try:
            holds(target)
        except (TooSlow, TimeoutError) as error:
            late.append(str(error) or type(error).__name__)
        except (AssertionError, OSError) as error:
            broken.append(str(error) or type(error).__name__)
    return broken, late


async def _recovered(fortress: Fortress, target: Target, before: int, *, is_over: bool) -> int:
    """The gateway's memory once the attacker's containers are gone: when it has come back, or the time for it is over."""
    if not is_over:
        try:
            await to_thread.run_sync(_end_containers, target)
        except OSError:
            pass  # a gateway that does not answer is seen by its other tenants
    until = anyio.current_time() + RECOVERY
    while fortress.memory() - before > MEMORY_BOUND and anyio.current_time() < until:
        await anyio.sleep(0.2)
    return fortress.memory()


def _end_containers(target: Target) -> None:
    _, found = target.ask("GET", "/v1/containers?limit=100", timeout=RECOVERY)
    for container in found["data"] if isinstance(found, dict) else []:
        target.ask("DELETE", f"/v1/containers/{container['id']}", timeout=RECOVERY)


if __name__ == "__main__":
    sys.exit(main())
