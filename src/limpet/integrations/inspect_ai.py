"""inspect_ai: a workspace as a sandbox environment, one box for each sample. Translates calls, results and errors; decides nothing.

The framework finds it by the name "limpet" once this package is installed beside it (`limpet.wiring.inspect_ai`).
"""

import asyncio
import errno
import os
import posixpath
import tomllib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, Literal, overload

from pydantic import BaseModel, ConfigDict

from limpet.core import exit_codes
from limpet.core.command import Lost, TimedOut
from limpet.core.errors import CommandDenied, CommandRefused, SandboxError, WorkingDirectoryMissing
from limpet.core.ports import Limits
from limpet.integrations import extra
from limpet.workspace.result import RunResult
from limpet.workspace.workspace import Workspace

with extra("inspect", "inspect_ai"):
    from inspect_ai.util import (
        ExecResult,
        OutputLimitExceededError,
        SandboxEnvironment,
        SandboxEnvironmentConfigType,
        SandboxEnvironmentLimits,
        SandboxUnavailableError,
        SandboxUserUnsupportedError,
    )

_PIECE = 32 << 20  # bytes of a file that one command takes over
# What the programs that read and write files say last, and what it means to Python. A read-only place is a matter of permission.
_ERRORS = {os.strerror(number): number for number in (
    errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOENT, errno.ENOTDIR, errno.ENOSPC, errno.ENAMETOOLONG, errno.ELOOP,
)} | {os.strerror(errno.EROFS): errno.EACCES}  # fmt: skip


class LimpetConfig(BaseModel):
    """What the boxes of a task are like: `SandboxEnvironmentSpec("limpet", LimpetConfig(...))`, or the same keys in a TOML file.

    All are as in `limpet.open_workspace`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    runtime: str = "bubblewrap"
    image: Path | None = None
    limits: Limits = Limits()
    env: dict[str, str] = {}

    def __hash__(self) -> int:
        """The framework keeps what it starts by what it was started with."""
        return hash(self.model_dump_json())


OpenWorkspace = Callable[..., AbstractAsyncContextManager[Workspace]]


class WorkspaceSandbox(SandboxEnvironment):
    """inspect_ai's SandboxEnvironment. A subclass says by `opens` how workspaces are opened.

    Commands run as the box's one user, from /mnt/data, without network. Files are read and written by programs in the box, as that
    user: his permissions count, and links lead where they lead him. A command that ran out of time is not run again, whatever
    `timeout_retry` says: the box itself keeps the time, so that there is nothing to retry. Output over the limit raises
    OutputLimitExceededError when the command has ended, with the head of it. asyncio only.
    """

    opens: ClassVar[OpenWorkspace]

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self._workspace = workspace
        self._user: tuple[str, ...] = ()
        self._keeper: _Keeper | None = None

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        await self._refuse_other_user(user)
        out, err = (_OutputHead(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE) for _ in range(2))
        try:
            result = await self._workspace.run(
                cmd,
                cwd=self._absolute(cwd),
                env=env,
                stdin=input.encode() if isinstance(input, str) else input,
                timeout=timeout,
                on_stdout=out.take,
                on_stderr=err.take,
                keep_output=False,
            )
        except SandboxError as error:
            return _refused(error)
        _raise_unfinished(result)
        for stream in (out, err):
            stream.refuse_overflow()
        if result.exit_code == exit_codes.CANNOT_RUN and err.text == f"{cmd[0]}: {os.strerror(errno.EACCES)}\n":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), cmd[0])
        return ExecResult(success=result.exit_code == 0, returncode=result.exit_code, stdout=out.text, stderr=err.text)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        data = contents.encode() if isinstance(contents, str) else contents
        parent = posixpath.dirname(file) or "."
        script = 'mkdir -p -- "$2" && exec tee $3 -- "$1" > /dev/null'
        for start in range(0, max(len(data), 1), _PIECE):
            words = ["/bin/sh", "-c", script, "sh", file, parent, "-a" if start else ""]
            await self._do(words, file, stdin=data[start : start + _PIECE])

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        done = await self._do(["head", "-c", str(limit + 1), "--", file], file)
        if done.kept["stdout"].size > limit:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return done.stdout.decode() if text else done.stdout

    async def _do(self, words: list[str], file: str, *, stdin: bytes = b"") -> RunResult:
        """What a program of ours did with a file; OSError of the kind that it names."""
        try:
            result = await self._workspace.run(words, env={"LC_ALL": "C"}, stdin=stdin)
        except SandboxError as error:
            _refused(error)
            raise
        _raise_unfinished(result)
        if result.exit_code != 0:
            raise _os_error(result.stderr.decode(errors="replace").strip(), file)
        return result

    async def _refuse_other_user(self, user: str | None) -> None:
        if user is None:
            return
        if not self._user:
            asked = await self._workspace.run("id -u; id -un")
            self._user = tuple(asked.stdout.decode(errors="replace").split())
        if user not in self._user:
            raise SandboxUserUnsupportedError(
                f"The box has one user, {' or '.join(self._user)}; nothing in it runs as {user!r}."
            )

    def _absolute(self, cwd: str | None) -> str | None:
        return None if cwd is None else posixpath.join(self._workspace.directory, cwd)

    def default_polling_interval(self) -> float:
        return 0.2

    @classmethod
    def default_concurrency(cls) -> int | None:
        """Boxes at once: two for each processor."""
        return 2 * len(os.sched_getaffinity(0))

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return LimpetConfig(**config)

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        keeper = _Keeper(cls.opens("sample", **_settings(config)))
        environment = cls(await keeper.open())
        environment._keeper = keeper
        return {"default": environment}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            keeper = environment.as_type(WorkspaceSandbox)._keeper
            if keeper is not None:
                await keeper.close()


class _Keeper:
    """Holds a workspace open from one call of the framework to another.

    A task of its own enters and leaves it: between the two calls the framework opens cancel scopes that end after the second, and
    scopes must be left in order. Its parent is asyncio's own task group, which has no scope, and which `close` waits for.
    """

    def __init__(self, workspace: AbstractAsyncContextManager[Workspace]) -> None:
        self._workspace = workspace
        self._tasks = asyncio.TaskGroup()
        self._over = asyncio.Event()

    async def open(self) -> Workspace:
        """The workspace. Where it cannot be opened or the caller is cancelled, nothing is left, and the reason is raised."""
        opened: asyncio.Future[Workspace] = asyncio.get_running_loop().create_future()
        await self._tasks.__aenter__()
        self._tasks.create_task(self._keep(opened))
        try:
            return await opened
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Returns when the box is gone."""
        self._over.set()
        await self._tasks.__aexit__(None, None, None)

    async def _keep(self, opened: asyncio.Future[Workspace]) -> None:
        try:
            async with self._workspace as workspace:
                if not opened.done():
                    opened.set_result(workspace)
                await self._over.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)  # the caller raises it


class _OutputHead:
    """The first `limit` bytes of a stream, however long it is."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self._size = 0

    async def take(self, data: bytes) -> None:
        self._size += len(data)
        self._data += data[: self._limit - len(self._data)]

    @property
    def text(self) -> str:
        return self._data.decode(errors="replace")

    def refuse_overflow(self) -> None:
        if self._size > self._limit:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, self.text)


def _settings(config: SandboxEnvironmentConfigType | None) -> Mapping[str, Any]:
    match config:
        case None:
            chosen = LimpetConfig()
        case str():
            chosen = LimpetConfig.model_validate(tomllib.loads(Path(config).read_text()))
        case LimpetConfig():
            chosen = config
        case _:
            raise TypeError(f"The configuration of the sandbox limpet is a LimpetConfig, not {config!r}.")
    return {name: getattr(chosen, name) for name in LimpetConfig.model_fields}


def _refused(error: SandboxError) -> ExecResult[str]:
    """A command that did not run: an error that the framework knows, or a failed result that a model can read."""
    match error:
        case CommandDenied():
            raise PermissionError(errno.EACCES, str(error)) from error
        case WorkingDirectoryMissing():
            raise FileNotFoundError(errno.ENOENT, str(error), error.path) from error
        case CommandRefused():
            return ExecResult(success=False, returncode=exit_codes.CANNOT_RUN, stdout="", stderr=str(error))
        case _:
            raise SandboxUnavailableError(str(error)) from error


def _raise_unfinished(result: RunResult) -> None:
    match result.outcome:
        case TimedOut():
            raise TimeoutError(f"The command was killed after {result.duration:.0f} seconds, with all that it started.")
        case Lost(reason):
            raise SandboxUnavailableError(reason)


def _os_error(said: str, file: str) -> OSError:
    number = next((number for words, number in _ERRORS.items() if said.endswith(words)), errno.EIO)
    return OSError(number, said if number == errno.EIO else os.strerror(number), file)
