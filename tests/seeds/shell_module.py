"""Seed 01, "Shell Module": the workspace's `run` and the tool of a workspace."""

from tests.seeds.statement import Seed, Statement

_STATEMENTS = (
    Statement(
        id="s1-run-goes-to-completion",
        lines=(5, 10, 11, 12),
        says="`run` takes a command and returns when it has ended.",
    ),
    Statement(
        id="s1-spawn-is-there",
        lines=(5, 82),
        decided="spawn, stdin, PTY",
        says="`spawn` gives a handle of a process that runs: stdin, resize, signal, wait, output.",
    ),
    Statement(id="s1-run-takes-a-cwd", lines=(14, 15), says="A command runs in the `cwd` that it was given."),
    Statement(id="s1-run-takes-an-env", lines=(14, 16), says="Variables of `env` are added for that one command."),
    Statement(
        id="s1-abort-kills-the-process",
        lines=(17, 44, 46),
        decided="abort",
        says="An abort kills the command with all its descendants; the exit code is -1 and the output so far is kept.",
    ),
    Statement(
        id="s1-aborted-before-the-start-runs-nothing",
        lines=(46,),
        decided="abort",
        says="A call whose abort is set already starts no process.",
    ),
    Statement(
        id="s1-chunks-after-an-abort-are-dropped",
        lines=(46, 48),
        decided="abort",
        says="Chunks that arrive after the abort are neither kept nor given to a callback.",
    ),
    Statement(id="s1-run-takes-a-timeout", lines=(18,), says="A command ends when its timeout is over."),
    Statement(
        id="s1-callbacks-are-awaited",
        lines=(19, 20, 21, 22, 33, 35),
        decided="callbacks",
        says="With callbacks chunks are given as they are produced, each awaited before the next: a slow one slows the command.",
    ),
    Statement(
        id="s1-without-callbacks-all-comes-at-once",
        lines=(36, 40),
        says="Without callbacks the same call gives the same result, all at once.",
    ),
    Statement(
        id="s1-errors-of-callbacks-are-collected",
        lines=(19, 35),
        decided="callbacks",
        says="What a callback raises is in `callback_errors` and changes no exit code; `run_succeeded` is then false.",
    ),
    Statement(
        id="s1-a-result-has-output-code-and-duration",
        lines=(24, 25, 26, 27, 28, 29),
        says="A result holds stdout and stderr as bytes, the exit code and the duration.",
    ),
    Statement(
        id="s1-output-is-always-whole",
        lines=(38,),
        decided="whole output, always",
        says="`stdout` and `stderr` of a result are whole at any length, with callbacks and without.",
    ),
    Statement(
        id="s1-the-run-tool-streams-events",
        lines=(42, 57, 92),
        says="`workspace__<name>__run` emits `workspace_stdout` and `workspace_stderr` events while output arrives.",
    ),
    Statement(
        id="s1-the-run-tool-is-named-after-its-workspace",
        lines=(42, 52, 54, 55),
        says="A workspace with a shell gives the tool `workspace__<name>__run` with command, cwd, env and timeoutMs.",
    ),
    Statement(
        id="s1-the-run-tool-answers-with-text-code-and-duration",
        lines=(55,),
        decided="names",
        says="Its result has stdout, stderr, exitCode and durationMs.",
    ),
    Statement(
        id="s1-the-prefix-is-reserved",
        lines=(54, 55),
        says="Nobody else's tool may have a name that begins with `workspace__`.",
    ),
    Statement(
        id="s1-the-shell-capability-is-true-or-an-object",
        lines=(52, 61, 62, 67, 71, 72, 73, 74),
        decided="names",
        says="The capability `shell` is `true` or an object with `allowedCommands` and `maxDurationMs`.",
    ),
    Statement(
        id="s1-allowed-commands-bind",
        lines=(63, 64, 69, 73, 76),
        decided="allowlist",
        says="With `allowedCommands` every simple command of the text must be in the list, in the tool and in `run`.",
    ),
    Statement(
        id="s1-a-refused-command-starts-nothing",
        lines=(63, 76),
        says="A command that is not allowed is refused before a process starts, with a sentence that says what is.",
    ),
    Statement(
        id="s1-max-duration-is-default-and-ceiling",
        lines=(65, 66, 78),
        decided="allowlist",
        says="`maxDurationMs` is the timeout of a call that names none, and no call gets more.",
    ),
    Statement(
        id="s1-stdin-can-be-given",
        lines=(83,),
        decided="spawn, stdin, PTY",
        says="Data can be passed to a command, at its start and while it runs; a file and `<` work too.",
    ),
    Statement(
        id="s1-a-pty-can-be-asked-for",
        lines=(84,),
        decided="spawn, stdin, PTY",
        says="With `pty` a command has a terminal with a size, colours and control characters.",
    ),
    Statement(
        id="s1-memory-has-a-shell",
        lines=(88, 89),
        decided="the memory runtime",
        says="The runtime `memory` runs commands in process, and the docs say what it is.",
    ),
    Statement(id="s1-local-has-a-shell", lines=(90,), says="The runtime `local` runs commands as subprocesses."),
    Statement(
        id="s1-what-is-not-offered-fails-at-opening",
        lines=(88, 91, 92),
        says="A workspace whose runtime does not offer what is declared fails when it is opened, not at the first call.",
    ),
)

SHELL_MODULE = Seed(
    name="Shell Module",
    lines=96,
    statements=_STATEMENTS,
    silent=frozenset(
        {1, 2, 3, 4, 6, 7, 8, 9, 13, 23, 30, 31, 32, 34, 37, 39, 41, 43, 45, 47, 49, 50, 51, 53, 56, 58, 59, 60, 68, 70}
        | {75, 77, 79, 80, 81, 85, 86, 87, 93, 94, 95, 96}
    ),
)
