"""The tools of a request that the gateway reads, and where a shell runs. Unknown fields are kept."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr

from limpet.containers.requested_spec import MOST_FILES, MOST_SKILLS


class ContainerAuto(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["container_auto"]
    memory_limit: StrictStr | None = None
    network_policy: dict[str, Any] | None = None
    file_ids: Annotated[list[StrictStr], Field(max_length=MOST_FILES)] | None = None
    skills: Annotated[list[dict[str, Any]], Field(max_length=MOST_SKILLS)] | None = None
    expires_after: dict[str, Any] | None = None


class ContainerReference(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["container_reference"]
    container_id: Annotated[StrictStr, Field(min_length=1)]


class LocalSkill(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: StrictStr
    description: StrictStr
    path: StrictStr


class Local(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["local"]
    skills: Annotated[list[LocalSkill], Field(max_length=MOST_SKILLS)] | None = None


Name = Annotated[StrictStr, Field(min_length=1, max_length=128, pattern=r"^[a-zA-Z0-9_-]+$")]
Environment = Annotated[ContainerAuto | ContainerReference | Local, Field(discriminator="type")]


class ShellTool(BaseModel):
    """The shell tool of a request. Without `environment` it is hosted, in a container of its own (`container_auto`)."""

    model_config = ConfigDict(extra="allow")
    type: Literal["shell"]
    environment: Environment | None = None
    allowed_callers: Annotated[list[Literal["direct", "programmatic"]], Field(min_length=1)] | None = None


class FunctionTool(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["function"]
    name: Name
    parameters: dict[str, Any] | None = None
    strict: StrictBool | None = None
    description: StrictStr | None = None


class CustomTool(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["custom"]
    name: Name
    description: StrictStr | None = None
    format: dict[str, Any] | None = None


class InnerTool(BaseModel):
    """A tool within a namespace; those that are neither functions nor custom are looked at by their type only."""

    model_config = ConfigDict(extra="allow")
    type: Annotated[StrictStr, Field(min_length=1)]


class NamespaceTool(BaseModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["namespace"]
    name: Annotated[StrictStr, Field(min_length=1, max_length=256)]
    description: StrictStr | None = None
    tools: list[InnerTool]
