"""The tools of a response that are more than a definition handed on: how they are offered to a model, and what carries out their calls."""

from dataclasses import dataclass, field

from limpet.containers.manager import ContainerManager
from limpet.containers.settings import ShellLimits
from limpet.core.ports import Probe
from limpet.egress.network_note import NO_NETWORK, network_note
from limpet.responses import shell_delegation
from limpet.responses.hosted_calls import HostedCalls
from limpet.responses.patch_calls import PatchCalls
from limpet.responses.placement import ShellTarget
from limpet.responses.prepared_run import RunParts
from limpet.responses.provider_shell import ProviderShell
from limpet.responses.request import ParsedRequest
from limpet.responses.shell_call import ShellCalls
from limpet.responses.shell_description import shell_description
from limpet.responses.shell_host import ShellHost
from limpet.responses.shell_runner import ShellDelegation
from limpet.responses.writer import Writer
from limpet.store.provider_containers import ProviderContainers
from limpet.upstreams.patch_function import is_patch_tool
from limpet.upstreams.upstream import ShellOffer, Upstream

LOCAL = {"type": "local"}
PATCHES = "\nThe tool apply_patch changes files of the same container; its relative paths begin in {data}."


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedTools:
    """`data` is the working directory that models are told of, `probe` what boxes have; `owners` know whose a provider's
    containers are, where there may be several tenants."""

    containers: ContainerManager
    limits: ShellLimits
    delegation: ShellDelegation
    data: str
    has_network: bool = False
    probe: Probe = field(default_factory=lambda: Probe(works=True, detail=""))
    owners: ProviderContainers | None = None

    async def delegated(self, tenant: str, asked: ParsedRequest, upstream: Upstream) -> ParsedRequest:
        """See `shell_delegation.applied`. Raises NotFound too, for a container of the provider's that is not the tenant's."""
        asked = shell_delegation.applied(self.delegation, asked, upstream)
        if (provided := self.provided(tenant, asked)) is not None:
            await provided.check(asked.body.tools or (), asked.input)
        return asked

    def provided(self, tenant: str, asked: ParsedRequest) -> ProviderShell | None:
        """The shell that the provider runs, and whose its containers are, where the operator lets it run shells."""
        if self.delegation.runner != "provider":
            return None
        return ProviderShell(tool=asked.provider_shell, tenant=tenant, owners=self.owners)

    def shell(self, asked: ParsedRequest, target: ShellTarget) -> ShellOffer | None:
        """The shell as a model is offered it."""
        if asked.shell is None:
            return None
        is_local = target.environment == LOCAL
        patches = PATCHES.format(data=self.data) if not is_local and self._hosts_patches(asked) else ""
        return ShellOffer(
            description=shell_description(
                is_local=is_local,
                seconds=self.limits.command_timeout_secs,
                characters=self.limits.max_output_chars,
                has_network=self.has_network,
                data=self.data,
                probe=self.probe,
                network_note=self._network_note(target),
                secrets=self.containers.secrets.told(target.container, target.secrets),
                skills=target.given.get("skills", ()),
                files=target.given.get("files", ()),
            )
            + patches
        )

    def _network_note(self, target: ShellTarget) -> str:
        """Of what the container's door admits now: the hosts of sets, services with their ports, and nothing that was withdrawn."""
        try:
            return network_note(self.containers.doors.grants.policy(target.given.get("network_policy", {})))
        except ValueError:  # sets stand for too many hosts now: its door cannot be opened
            return NO_NETWORK

    def calls(self, asked: ParsedRequest, parts: RunParts, host: ShellHost, writer: Writer) -> HostedCalls | None:
        """What carries the shell's calls out, and those of `apply_patch` beside it; None where the client or the provider does, or there
        is no shell."""
        target = parts.target
        if asked.shell is None or target.container_id is None or target.environment == LOCAL:
            return None
        known = {
            "tenant": parts.record.tenant,
            "response_id": parts.record.id,
            "container_id": target.container_id,
        }
        shell = ShellCalls(host, **known, writer=writer, begun=parts.begun)
        if not self._hosts_patches(asked):
            return HostedCalls(shell=shell)
        return HostedCalls(shell=shell, patches=PatchCalls(host, shell, **known, writer=writer, begun=parts.begun))

    def _hosts_patches(self, asked: ParsedRequest) -> bool:
        return self.delegation.apply_patch == "hosted" and any(map(is_patch_tool, asked.other_tools))
