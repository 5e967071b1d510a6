"""Rejects arguments of the wrong type, from callers without type checks, before anything starts; each error says what is right. Pure."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from limpet.core.command import Command, Script
from limpet.core.errors import BadCommand, ConfigInvalid
from limpet.core.ports import Limits, Offer, SandboxRef
from limpet.core.secret import Secret
from limpet.egress.network import Network, place_secrets, read_network
from limpet.egress.secrets import DomainSecret, PlacedSecret
from limpet.guard.policy.policy import Policy
from limpet.guard.redaction.redactor import Redaction

WHERE = "open_workspace"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,48}")


def refuse_misused(*, name: Any, runtime: Any, opening: Any, rules: Any) -> None:
    """ConfigInvalid for the first argument of `open_workspace` that is no such value. `opening` and `rules` are its Opening and Asked;
    Any, because what stands in them may be anything."""
    _refuse_name(name)
    if not isinstance(runtime, str) and not hasattr(runtime, "offers"):
        raise _wrong(
            "runtime", 'must be "bubblewrap", "docker", "local" or "memory", or a runtime that is open', runtime
        )
    if opening.lifetime not in ("process", "ttl"):
        raise _wrong("lifetime", 'must be "process" or "ttl"', opening.lifetime)
    if isinstance(opening.ttl, bool) or not isinstance(opening.ttl, (int, float)) or not opening.ttl > 0:
        raise _wrong("ttl", "must be seconds above 0", opening.ttl)
    _refuse_env(opening.env)
    if not isinstance(opening.needs, (set, frozenset)) or not all(isinstance(one, Offer) for one in opening.needs):
        raise _wrong("needs", "must be a set of limpet.Offer, such as {limpet.Offer.PTY}", opening.needs)
    for key, given, kind, right in (
        ("ref", opening.ref, SandboxRef, "another workspace's ref, a limpet.SandboxRef"),
        ("directory", opening.directory, Path, "a path"),
        ("image", opening.image, Path, "a path, of a root directory"),
        ("limits", opening.limits, Limits, "limits such as limpet.Limits(memory=1 << 30)"),
        ("capabilities", rules.capabilities, Mapping, 'an object such as {"shell": True, "fs": True}'),
    ):
        if given is not None and not isinstance(given, kind):
            raise _wrong(key, f"must be {right}", given)
    refuse_no_rules(WHERE, policy=rules.policy, redaction=rules.redaction)
    for key, called in (("approver", rules.approver), ("audit", rules.audit)):
        if called is not None and not callable(called):
            raise _wrong(key, "must be a function", called)
    if not isinstance(rules.session, str):
        raise _wrong("session", "must be a text", rules.session)


def checked_network(given: Any, secrets: Any, opening: Any) -> tuple[Network | None, tuple[PlacedSecret, ...]]:
    """What a box may reach and the secrets that it uses, from whatever was given. Raises ConfigInvalid, which shows no value."""
    try:
        network = read_network(given, with_secrets=bool(secrets))
    except ValueError as error:
        raise ConfigInvalid(WHERE, "network", f"{error}.") from error
    if not secrets:
        return network, ()
    if not isinstance(secrets, Mapping) or not all(
        isinstance(one, DomainSecret) and isinstance(one.value, Secret) for one in secrets.values()
    ):
        right = '{"TOKEN": limpet.DomainSecret(value=limpet.Secret("…"), hosts=("api.example.com",))}'
        raise ConfigInvalid(WHERE, "secrets", f"must be an object of secrets such as {right}.")
    if opening.ref is not None:
        raise ConfigInvalid(
            WHERE, "secrets", "a box that is entered again has no placeholders for them; open a new one."
        )
    try:
        return network, place_secrets(secrets)
    except ValueError as error:
        raise ConfigInvalid(WHERE, "secrets", f"{error}.") from error


def refuse_no_rules(where: str, *, policy: Any, redaction: Any) -> None:
    """ConfigInvalid for a policy or a redaction that is another thing. Neither is shown: it may hold secrets."""
    if policy is not None and not isinstance(policy, Policy):
        raise ConfigInvalid(where, "policy", "must be a policy such as limpet.Policy(readonly=True).")
    if redaction is not None and not isinstance(redaction, Redaction):
        raise ConfigInvalid(
            where, "redaction", 'must be a redaction such as limpet.Redaction(patterns=["ACME-[0-9]+"]).'
        )


def told(command: Command) -> Command:
    """The command with variables of its own, and a directory that is a text. BadCommand for what is none of the kinds that `run` takes."""
    words = (command.what.text,) if isinstance(command.what, Script) else command.what.args
    for word in words:
        if not isinstance(word, str):
            raise not_a_program(f"A list with {type(word).__name__} in it")
    if command.stdin is not None and not isinstance(command.stdin, (bytes, bytearray, memoryview)):
        raise BadCommand("stdin must be bytes: encode the text, as in text.encode().")
    if not isinstance(command.env, Mapping):
        raise BadCommand('env must be an object of texts such as {"STAGE": "test"}.')
    for name, value in command.env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise BadCommand(f"env[{name!r}] must be a text; write numbers as text.")
    cwd = os.fspath(command.cwd) if isinstance(command.cwd, os.PathLike) else command.cwd
    if cwd is not None and not isinstance(cwd, str):
        raise BadCommand(f"cwd must be a text, the path of a directory, not {cwd!r}.")
    if cwd is command.cwd and not command.env:
        return command
    return replace(command, cwd=cwd, env=dict(command.env))


def refuse_no_event(abort: Any) -> None:
    """Raises BadCommand for an `abort` that is no event: without `is_set` and `wait`."""
    if abort is not None and not (callable(getattr(abort, "is_set", None)) and callable(getattr(abort, "wait", None))):
        raise BadCommand(f"abort must be an anyio.Event, not {abort!r}.")


def not_a_program(what: str) -> BadCommand:
    return BadCommand(f"{what} is nothing to run. Give a text, or a list of texts: a program, then its arguments.")


def _refuse_name(name: Any) -> None:
    if not isinstance(name, str):
        raise _wrong("name", 'must be a text such as "box"', name)
    if _NAME.fullmatch(name) is None:
        raise _wrong("name", "must be letters, digits, _ and -, 48 at most", name)


def _refuse_env(env: Any) -> None:
    if not isinstance(env, Mapping):
        raise ConfigInvalid(WHERE, "env", 'must be an object of texts such as {"STAGE": "test"}.')
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):  # never shown: it may be a secret
            raise ConfigInvalid(WHERE, "env", f"env[{name!r}] must be a text; write numbers as text.")


def _wrong(key: str, right: str, given: object) -> ConfigInvalid:
    return ConfigInvalid(WHERE, key, f"{right}, not {given!r}.")
