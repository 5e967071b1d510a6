"""Statements that wait for their test. It only shrinks: an id that a test carries fails here until it is taken out."""

NOT_YET_PROVED: frozenset[str] = frozenset(
    {
        "s1-run-goes-to-completion",
        "s1-spawn-is-there",
        "s1-run-takes-a-cwd",
        "s1-run-takes-an-env",
        "s1-abort-kills-the-process",
        "s1-aborted-before-the-start-runs-nothing",
        "s1-chunks-after-an-abort-are-dropped",
        "s1-run-takes-a-timeout",
        "s1-callbacks-are-awaited",
        "s1-without-callbacks-all-comes-at-once",
        "s1-errors-of-callbacks-are-collected",
        "s1-a-result-has-output-code-and-duration",
        "s1-output-is-always-whole",
        "s1-the-shell-capability-is-true-or-an-object",
        "s1-allowed-commands-bind",
        "s1-a-refused-command-starts-nothing",
        "s1-max-duration-is-default-and-ceiling",
        "s1-stdin-can-be-given",
        "s1-a-pty-can-be-asked-for",
        "s1-memory-has-a-shell",
        "s1-local-has-a-shell",
        "s1-what-is-not-offered-fails-at-opening",
    }
)
