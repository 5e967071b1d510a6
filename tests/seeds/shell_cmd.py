"""Seed 03, the tool `shell_cmd`."""

from tests.seeds.statement import Seed, Statement

_STATEMENTS = (
    Statement(
        id="s3-the-tool-is-shell-cmd", lines=(1, 3, 5, 7), says="There is a tool `shell_cmd` that runs one command."
    ),
    Statement(id="s3-command-is-required", lines=(11,), says="`command` is the name of a program and must be there."),
    Statement(
        id="s3-parameters-are-tokens",
        lines=(12, 23, 79, 80, 81, 82),
        says="`parameters` are arguments, one token each, and arrive as they were given.",
    ),
    Statement(
        id="s3-directory-is-resolved-and-used",
        lines=(13, 58, 87, 88, 89, 90, 91, 92, 93, 94),
        decided="shell_cmd",
        says="`directory` is resolved inside the trusted directory, and the command runs in it.",
    ),
    Statement(
        id="s3-timeout-is-in-milliseconds",
        lines=(14, 77, 83, 84, 85),
        says="`timeout` is in milliseconds, 600000 unless given.",
    ),
    Statement(
        id="s3-markdown-is-the-default-format",
        lines=(15, 27),
        says="The result is markdown unless `output_format` says json.",
    ),
    Statement(
        id="s3-minimal-is-the-default-detail",
        lines=(16, 25, 49),
        says="Without `output_detail` previews of 400 characters of each stream are given.",
    ),
    Statement(id="s3-full-gives-the-whole-output", lines=(16, 26, 49), says="With `full` the output is complete."),
    Statement(
        id="s3-artifacts-have-hashes",
        lines=(17, 42, 43, 44, 96, 104),
        says="Files of `artifact_paths` are listed with path, sha256 and size.",
    ),
    Statement(
        id="s3-artifacts-stay-in-scope",
        lines=(17, 48),
        says="An artifact path outside the trusted directory is refused before the command runs.",
    ),
    Statement(
        id="s3-no-shell-is-in-between",
        lines=(21, 22, 62),
        decided="shell_cmd",
        says="The program runs without a shell: nothing in a parameter is expanded or executed.",
    ),
    Statement(
        id="s3-output-is-captured",
        lines=(21,),
        says="Both output streams of the command are captured.",
    ),
    Statement(
        id="s3-command-is-one-executable",
        lines=(23,),
        says="`command` with more than a program in it is refused, and the message says where arguments go.",
    ),
    Statement(
        id="s3-chunks-are-tool-stream-events",
        lines=(3, 24),
        says="Chunks are published as `tool-stream` events that name their stream while the command runs.",
    ),
    Statement(
        id="s3-json-is-machine-readable",
        lines=(27, 31, 33, 35, 36, 37, 38, 39, 40, 41, 45, 46, 98, 99, 100, 101, 102, 103, 105, 106),
        says="The JSON result has exit_code, stdout, stderr, timed_out, duration_ms and artifacts.",
    ),
    Statement(
        id="s3-a-lifecycle-is-tracked",
        lines=(3, 28),
        says="An execution goes through queued, starting, running to completed, failed, canceled or timed_out, and no other way.",
    ),
    Statement(
        id="s3-a-session-or-a-chat-is-cancelled",
        lines=(29,),
        says="Cancelling a session or a chat ends its executions and nobody else's.",
    ),
    Statement(
        id="s3-only-on-a-users-request",
        lines=(53, 55),
        decided="tool description",
        says="The description says that it is for what a user asked for explicitly.",
    ),
    Statement(
        id="s3-the-working-directory-is-trusted",
        lines=(3, 56, 57),
        decided="no `working_directory`",
        says="The trusted directory is the configured one, else the workspace's root, never the host user's home.",
    ),
    Statement(
        id="s3-a-directory-outside-is-refused",
        lines=(58, 118),
        says="A `directory` outside the trusted one is refused.",
    ),
    Statement(
        id="s3-paths-outside-are-refused",
        lines=(59, 64, 119),
        says="Arguments that are paths outside the trusted directory are refused, in every form that a path can have.",
    ),
    Statement(
        id="s3-control-syntax-is-refused",
        lines=(60, 120),
        decided="control syntax",
        says="Chaining, pipes, redirects, substitution and backgrounding are refused; `strict_syntax = false` lets parameters have them.",
    ),
    Statement(
        id="s3-inline-code-is-refused",
        lines=(61, 121),
        says="`sh -c`, `node -e`, `python -c` and their relatives are refused.",
    ),
    Statement(
        id="s3-examples-run",
        lines=(66, 68, 70, 71, 72, 73, 74, 75),
        says="The seed's examples are accepted as they stand.",
    ),
    Statement(
        id="s3-ai-commands-answer-for-themselves",
        lines=(108, 110, 112),
        decided="AI commands",
        says="A successful `codex`, `gemini` or `copilot` gives its clean output as `assistant_text` and ends the turn.",
    ),
    Statement(
        id="s3-failed-ai-commands-are-explained",
        lines=(113,),
        decided="AI commands",
        says="A failed one gives the formatted failure.",
    ),
    Statement(
        id="s3-ai-commands-keep-their-record",
        lines=(114,),
        decided="AI commands",
        says="The full tool record is kept beside it.",
    ),
    Statement(
        id="s3-a-mismatch-names-the-trusted-directory",
        lines=(123,),
        says="A refusal for a path or a directory names the trusted working directory.",
    ),
)

SHELL_CMD = Seed(
    name="shell_cmd",
    lines=129,
    statements=_STATEMENTS,
    silent=frozenset(
        {2, 4, 6, 8, 9, 10, 18, 19, 20, 30, 32, 34, 47, 50, 51, 52, 54, 63, 65, 67, 69, 76, 78, 86, 95, 97, 107, 109}
        | {111, 115, 116, 117, 122, 124, 125, 126, 127, 128, 129}
    ),
)
