"""The secrets of containers: those of a container until it ends, those of a response until its run ends, and the authority of its door.

On disk they are sealed alone (`store/sealing.py`). Nothing here gives a value to a box: it gets placeholders, and the door the values.
"""

import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import structlog

from limpet.containers.hosted_shells import HostedShells
from limpet.containers.network_grants import NetworkGrants
from limpet.containers.operator_secrets import OperatorSecrets
from limpet.containers.requested_secrets import GrantedSecret
from limpet.core.secret import Secret
from limpet.egress.authority import Authority
from limpet.egress.host_patterns import HostPattern
from limpet.egress.interception import Interceptor, verifying_context
from limpet.egress.secrets import PlacedSecret
from limpet.guard.redaction.encodings import SHORTEST
from limpet.store.containers import ContainerRecord, Containers
from limpet.store.sealing import SealBroken, Sealer
from limpet.workspace.shell import Shell

log = structlog.get_logger()


class StoredSecret(msgspec.Struct, kw_only=True):
    """`GrantedSecret` as it is sealed."""

    name: str
    placeholder: str
    hosts: tuple[str, ...]
    value: str | None
    in_query: bool
    in_body: bool


class StoredSecrets(msgspec.Struct, kw_only=True):
    """What is sealed of a container or a run; `authority` is in PEM, with its key; `tools` is JSON, of what a run's tools sign in with."""

    version: int = 1
    secrets: list[StoredSecret] = msgspec.field(default_factory=list)
    authority: str | None = None
    tools: str | None = None


@dataclass(slots=True, eq=False)
class _ContainerState:
    """`runs` are the secrets of responses that run in it now. `version` grows with every change."""

    own: tuple[GrantedSecret, ...] = ()
    runs: dict[str, tuple[GrantedSecret, ...]] = field(default_factory=dict)
    version: int = 0
    is_read: bool = False
    authority: Authority | None = None
    interceptor: Interceptor | None = None
    screened: tuple[Shell, frozenset[tuple[str, Secret]], Shell] | None = None
    placed: tuple[tuple[int, int], tuple[PlacedSecret, ...]] | None = None

    def granted(self) -> Iterable[GrantedSecret]:
        yield from self.own
        for secrets in self.runs.values():
            yield from secrets


class ContainerSecrets:
    """Of one home's containers. `operator` has the values of those that are named."""

    def __init__(
        self, rows: Containers, grants: NetworkGrants, operator: OperatorSecrets, sealer: Sealer, shells: HostedShells
    ) -> None:
        self._rows = rows
        self._grants = grants
        self._operator = operator
        self._sealer = sealer
        self._shells = shells
        self._states: dict[str, _ContainerState] = {}
        self._tls: ssl.SSLContext | None = grants.tls

    def seal(self, row: str, secrets: Sequence[GrantedSecret], *, tools: str | None = None) -> bytes | None:
        """For the row of that container or response; None where there is nothing. HomeUnusable."""
        return None if not secrets and tools is None else self._sealer.seal(_packed(secrets, tools=tools), row=row)

    def unseal(self, row: str, sealed: bytes | None) -> tuple[tuple[GrantedSecret, ...], str | None]:
        """The secrets and the tools' that were sealed for that row. Nothing, and a line in the log, where it cannot be opened: what needed
        it is refused then."""
        stored = self._stored(row, sealed)
        return tuple(_granted(each) for each in stored.secrets), stored.tools

    def lend(self, container_id: str, run: str, secrets: Sequence[GrantedSecret]) -> None:
        """Give them to the commands of a run, until they are taken back. The next lease opens the door for them."""
        if secrets:
            state = self._states.setdefault(container_id, _ContainerState())
            state.runs[run] = tuple(secrets)
            state.version += 1

    def take_back(self, container_id: str, run: str) -> bool:
        """The run has ended. Whether anything was lent to it."""
        state = self._states.get(container_id)
        if state is None or state.runs.pop(run, None) is None:
            return False
        state.version += 1
        state.screened = None
        if not (state.runs or state.own or state.authority):
            del self._states[container_id]
        return True

    def read(self, record: ContainerRecord) -> int:
        """Know what its row holds. Gives the version of what there is now."""
        if record.sealed is None and record.id not in self._states:
            return 0
        state = self._states.setdefault(record.id, _ContainerState())
        if not state.is_read:
            state.is_read = True
            state.own, state.authority = self._unsealed(record.id, record.sealed)
            state.version += 1
        if state.interceptor is not None and not state.interceptor.authority.is_fresh:
            state.version += 1
        return state.version

    async def change(self, record: ContainerRecord, secrets: Sequence[GrantedSecret]) -> None:
        """Let the container itself have these from now on, and no others. StoreFailed."""
        self.read(record)
        if not secrets and record.id not in self._states:
            return
        state = self._states.setdefault(record.id, _ContainerState(is_read=True))
        state.own = tuple(secrets)
        state.version += 1
        await self._keep(record.id, state)

    def forget(self, container_id: str) -> None:
        """It has ended."""
        self._states.pop(container_id, None)

    async def interceptor(self, record: ContainerRecord) -> Interceptor | None:
        """What its door uses them with; None where it has none. The authority is the one that it had before, as far as it vouches for
        every host. StoreFailed."""
        self.read(record)
        state = self._states.get(record.id)
        if state is None or not (hosts := self.hosts(record.id)):
            return None
        if state.authority is None or not state.authority.vouches_for(hosts):
            state.authority, state.interceptor = Authority.for_hosts(hosts, before=state.authority), None
            await self._keep(record.id, state)
        if state.interceptor is None:
            self._tls = self._tls or verifying_context()
            state.interceptor = Interceptor(lambda: self._placed(state), state.authority, tls=self._tls)
        return state.interceptor

    def hosts(self, container_id: str) -> tuple[HostPattern, ...]:
        """Where its secrets may be sent to now."""
        state = self._states.get(container_id)
        return () if state is None else tuple(host for secret in self._placed(state) for host in secret.hosts)

    def environment(self, container_id: str, run: str | None) -> Mapping[str, str]:
        """The variables of a command of that run: placeholders."""
        state = self._states.get(container_id)
        if state is None:
            return {}
        granted = (*state.own, *state.runs.get(run or "", ()))
        return {secret.name: secret.placeholder for secret in granted}

    def told(self, record: ContainerRecord | None, lent: Sequence[GrantedSecret]) -> dict[str, tuple[str, ...]]:
        """The names of the variables that a response's commands have, with the hosts that each is for."""
        own: tuple[GrantedSecret, ...] = ()
        if record is not None:
            self.read(record)
            state = self._states.get(record.id)
            own = () if state is None else state.own
        found: dict[str, tuple[str, ...]] = {}
        replaced = {secret.name for secret in lent}
        for secret in (*(each for each in own if each.name not in replaced), *lent):
            found[secret.name] = (*found.get(secret.name, ()), *secret.hosts)
        return found

    async def screened(self, shell: Shell, container_id: str) -> Shell:
        """The shell, whose output shows no value of the container's secrets."""
        state = self._states.get(container_id)
        values = {} if state is None else self._values(state)
        if state is None or not values:
            return shell
        key = frozenset(values.items())
        if state.screened is None or state.screened[:2] != (shell, key):
            state.screened = (shell, key, await self._shells.hiding(shell, container_id, values))
        return state.screened[2]

    def _values(self, state: _ContainerState) -> dict[str, Secret]:
        found: dict[str, Secret] = {}
        for secret in state.granted():
            inline = () if secret.value is None else (secret.value,)
            operators = (Secret(value.decode(errors="surrogateescape")) for value in self._operator.values(secret.name))
            for value in inline or operators:
                if len(value.reveal()) >= SHORTEST and value not in found.values():
                    found[secret.name if secret.name not in found else f"{secret.name}.{len(found)}"] = value
        return found

    def _placed(self, state: _ContainerState) -> tuple[PlacedSecret, ...]:
        """The same ones until something changes: a door asks several times for each request."""
        versions = (state.version, self._operator.version)
        if state.placed is None or state.placed[0] != versions:
            placed = (self._place(secret) for secret in state.granted())
            state.placed = (versions, tuple(each for each in placed if each is not None))
        return state.placed[1]

    def _place(self, secret: GrantedSecret) -> PlacedSecret | None:
        hosts = self._grants.still_admits(secret)
        rule = self._grants.secrets.get(secret.name) if secret.value is None else secret
        values = self._operator.values(secret.name) if secret.value is None else (secret.value.reveal().encode(),)
        if not hosts or rule is None or not values:
            return None
        return PlacedSecret(
            name=secret.name,
            value=values[0],
            also_hidden=values[1:],
            hosts=hosts,
            in_query=rule.in_query,
            in_body=rule.in_body,
            placeholder=secret.placeholder.encode(),
        )

    async def _keep(self, container_id: str, state: _ContainerState) -> None:
        sealed = self._sealer.seal(_packed(state.own, state.authority), row=container_id)
        await self._rows.update(container_id, sealed=sealed)

    def _unsealed(self, row: str, sealed: bytes | None) -> tuple[tuple[GrantedSecret, ...], Authority | None]:
        stored = self._stored(row, sealed)
        try:
            authority = None if stored.authority is None else Authority.read(stored.authority.encode())
        except ValueError:
            log.error("secrets_not_opened", row=row, reason="")
            return (), None
        return tuple(_granted(each) for each in stored.secrets), authority

    def _stored(self, row: str, sealed: bytes | None) -> StoredSecrets:
        if sealed is None:
            return StoredSecrets()
        try:
            return msgspec.json.decode(self._sealer.unseal(sealed, row=row), type=StoredSecrets)
        except (SealBroken, msgspec.DecodeError, ValueError) as problem:
            log.error("secrets_not_opened", row=row, reason=str(problem) if isinstance(problem, SealBroken) else "")
            return StoredSecrets()


def _packed(secrets: Sequence[GrantedSecret], authority: Authority | None = None, *, tools: str | None = None) -> bytes:
    stored = StoredSecrets(
        secrets=[
            StoredSecret(
                name=secret.name,
                placeholder=secret.placeholder,
                hosts=secret.hosts,
                value=None if secret.value is None else secret.value.reveal(),
                in_query=secret.in_query,
                in_body=secret.in_body,
            )
            for secret in secrets
        ],
        authority=None if authority is None else authority.stored().decode(),
        tools=tools,
    )
    return msgspec.json.encode(stored)


def _granted(stored: StoredSecret) -> GrantedSecret:
    return GrantedSecret(
        name=stored.name,
        placeholder=stored.placeholder,
        hosts=stored.hosts,
        value=None if stored.value is None else Secret(stored.value),
        in_query=stored.in_query,
        in_body=stored.in_body,
    )
