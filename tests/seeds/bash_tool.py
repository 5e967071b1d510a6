"""Seed 02, the tool `Bash` and its five modes."""

from tests.seeds.statement import Seed, Statement

_STATEMENTS = (
    Statement(id="s2-one-tool-named-bash", lines=(1, 2, 8, 10, 14), says="There is one tool, its name is `Bash`."),
    Statement(
        id="s2-modes-follow-from-the-parameters",
        lines=(2, 3, 4, 5),
        says="Which of the five modes a call means follows from its parameters; every combination of them is decided.",
    ),
    Statement(
        id="s2-three-parameters-are-shown",
        lines=(3, 15, 18, 19, 20),
        says="The schema shows `command`, `description` and `run_in_background`.",
    ),
    Statement(
        id="s2-nine-parameters-are-hidden",
        lines=(21, 24, 25, 26, 27, 28, 29, 30, 31),
        decided="hidden parameters",
        says="The others are accepted though the schema does not show them, and results say in words how to use them.",
    ),
    Statement(
        id="s2-tasks-belong-to-their-session",
        lines=(11,),
        says="Background tasks are kept per session: nobody else sees, reads or ends them.",
    ),
    Statement(
        id="s2-a-shell-is-all-it-needs",
        lines=(7, 9, 12, 13),
        decided="no shell capability",
        says="The tool works wherever the workspace has a shell, and a workspace without one starts no process.",
    ),
    Statement(id="s2-commands-are-chained", lines=(18, 104), says="`&&`, `;`, `|` and `2>&1` work as in bash."),
    Statement(
        id="s2-description-travels", lines=(19,), decided="`description`", says="`description` is on events and audit."
    ),
    Statement(
        id="s2-sync-returns-the-whole-story",
        lines=(32, 33, 34),
        decided="results",
        says="A sync call returns stdout, stderr, exit_code, duration, cwd and command.",
    ),
    Statement(
        id="s2-async-returns-a-task",
        lines=(20, 35, 36, 37),
        decided="results",
        says="A background call returns at once with task_id, pid and started_at.",
    ),
    Statement(
        id="s2-a-task-can-be-polled",
        lines=(24, 38, 39, 40, 41),
        says="A task's id alone gives its status: output, exit_code (null while it runs), uptime_seconds and is_running.",
    ),
    Statement(
        id="s2-kill-is-term-then-kill",
        lines=(25, 38, 42, 43, 44, 45),
        says="`kill` sends SIGTERM to the task's whole tree, and SIGKILL to what lives 2 seconds later.",
    ),
    Statement(
        id="s2-stdin-reaches-a-task",
        lines=(26, 46, 47),
        says="`stdin_text` is sent to a running task with a newline at its end.",
    ),
    Statement(id="s2-a-task-can-be-awaited", lines=(27, 38, 46, 48), says="`wait` returns when the task has ended."),
    Statement(
        id="s2-matching-lines-are-pushed",
        lines=(28, 29, 38, 46, 49),
        says="`stream` pushes the lines that match `stream_pattern` as notifications, of new and of running tasks.",
    ),
    Statement(
        id="s2-timeout-has-a-default-and-a-range",
        lines=(30,),
        decided="timeout outside 1–1800",
        says="`timeout` is 300 seconds unless given; outside 1 to 1800 it is clamped, and the result says so.",
    ),
    Statement(id="s2-cwd-is-used", lines=(31,), says="`cwd` is the directory in which the command runs."),
    Statement(
        id="s2-every-result-has-the-six-fields",
        lines=(50, 51, 52, 53, 54, 55, 56, 57, 58, 59),
        decided="results",
        says="Every result has stdout, stderr, exit_code, duration, cwd and command.",
    ),
    Statement(
        id="s2-output-is-redacted",
        lines=(60, 61),
        decided="redaction marker",
        says="API keys, tokens and JWTs in the output are replaced before the agent sees them.",
    ),
    Statement(
        id="s2-patterns-can-be-added",
        lines=(61, 62, 79),
        says="`extra_sensitive_patterns` are redacted too.",
    ),
    Statement(
        id="s2-allowed-commands-bind",
        lines=(63, 64, 67),
        says="With `allowed_commands` nothing else runs.",
    ),
    Statement(
        id="s2-blocked-commands-add-to-the-platforms",
        lines=(68, 83, 84, 85),
        decided="blocked_commands",
        says="`blocked_commands` are refused beside the platform's own, which always are.",
    ),
    Statement(
        id="s2-allowed-paths-add-roots",
        lines=(69,),
        decided="roots",
        says="`allowed_paths` are directories that paths may lie in beside the working directory.",
    ),
    Statement(
        id="s2-unrestricted-lifts-confinement",
        lines=(70,),
        says="`unrestricted` turns the confinement of paths off; it is false unless set.",
    ),
    Statement(
        id="s2-the-config-block-is-accepted",
        lines=(71, 72, 73, 74, 75, 111),
        decided="config block",
        says="The seed's configuration under `tools.modules.shell` is accepted as it stands.",
    ),
    Statement(
        id="s2-shell-null-is-bin-bash",
        lines=(76,),
        decided="config block",
        says="`shell: null` means /bin/bash.",
    ),
    Statement(
        id="s2-timeout-default-is-configured",
        lines=(77,),
        says="`timeout_default` is the timeout of a call that names none.",
    ),
    Statement(
        id="s2-output-lines-are-bounded",
        lines=(78,),
        says="A task keeps its newest `max_output_lines` lines of each stream, and counts what it dropped.",
    ),
    Statement(
        id="s2-allowed-roots-are-expanded",
        lines=(80, 81, 82, 88, 89, 90),
        decided="roots",
        says="`allowed_roots`, with `{{workdir}}` expanded, the home and the temporary directory are roots.",
    ),
    Statement(
        id="s2-readonly-refuses-what-writes",
        lines=(86, 87),
        decided="readonly",
        says="With `readonly` only known readers run.",
    ),
    Statement(
        id="s2-a-path-outside-is-refused-with-the-constraint",
        lines=(90, 91),
        says="A path outside the roots is refused, and the message names the constraint to add.",
    ),
    Statement(
        id="s2-cleanup-runs-by-itself",
        lines=(94, 95, 96, 98, 99),
        decided="cleanup_session",
        says="When a session ends or aborts its tasks are cleaned up without a call.",
    ),
    Statement(
        id="s2-cleanup-kills-and-notifies",
        lines=(96, 97, 98),
        decided="cleanup_session",
        says="Cleaning up sends TERM, 2 seconds later KILL, and one `cancelled` notification for each task.",
    ),
    Statement(
        id="s2-every-call-is-audited",
        lines=(105, 106, 107, 108),
        decided="audit",
        says="Every call in every mode writes a `shell_audit` record with command, cwd, exit code, error and UTC time.",
    ),
    Statement(
        id="s2-no-shell-no-process",
        lines=(111, 112),
        decided="no shell capability",
        says="Without the shell capability no process can be started.",
    ),
    Statement(
        id="s2-destructive-commands-need-a-yes",
        lines=(112, 113),
        says="With `confirm_destructive` commands such as `rm -rf` and `git reset --hard` wait for an approval.",
    ),
)

# Windows is none of the platforms that are served (lines 92, 93, 100 to 103).
BASH_TOOL = Seed(
    name="Bash",
    lines=113,
    statements=_STATEMENTS,
    silent=frozenset({6, 16, 17, 22, 23, 65, 66, 92, 93, 100, 101, 102, 103, 109, 110}),
)
