"""The settings of `shell_cmd`. Values only."""

from dataclasses import dataclass

AI_COMMANDS = frozenset({"codex", "gemini", "copilot"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCmdConfig:
    """`working_directory` is the trusted directory, absolute in the workspace; None is the workspace's own. `also_trusted` are
    other directories that paths may lead into (of skills, say). `strict_syntax` refuses shell control syntax in parameters too;
    false passes them on, since without a shell they are inert. `timeout` is in seconds, the default of a call;
    the workspace's own ceiling holds beside it. `preview` is characters a stream in minimal detail, `most_output` bytes a stream
    in full detail. `ai_commands` are programs whose output is the answer itself. `path` is where programs are looked up."""

    working_directory: str | None = None
    also_trusted: tuple[str, ...] = ()
    strict_syntax: bool = True
    timeout: float = 600.0
    preview: int = 400
    most_output: int = 1 << 20
    ai_commands: frozenset[str] = AI_COMMANDS
