"""Words that `shell_cmd` refuses before anything runs, whatever files there are.

The cases are those of seed 03 and every bypass that was seen to pass its first implementation.
"""

from typing import Any

import pytest

from limpet.tools.shell_cmd.config import ShellCmdConfig
from limpet.tools.shell_cmd.refusal import CommandRefusal
from limpet.tools.shell_cmd.request import is_ai_command, read_request, refuse_request

LENIENT = ShellCmdConfig(strict_syntax=False)
STRICT = ShellCmdConfig()


def judged(command: str, *parameters: str, config: ShellCmdConfig = STRICT) -> CommandRefusal | None:
    return refuse_request(read_request({"command": command, "parameters": list(parameters)}, config), config)


def code(command: str, *parameters: str, config: ShellCmdConfig = STRICT) -> str | None:
    refused = judged(command, *parameters, config=config)
    return refused.code if refused else None


CONTROL_SYNTAX = [
    "ls&&id", "ls && id", "ls || id", "ls | sh", "ls; id", "ls;id", "ls > x", "cat < x", "echo $(id)", "echo `id`", "ls &",
    "ls\nid", "ls\rid", "$(id)", "`id`",
]  # fmt: skip


@pytest.mark.statement("s3-control-syntax-is-refused")
def test_control_syntax_in_the_command_is_always_refused() -> None:
    for command in CONTROL_SYNTAX:
        for config in [STRICT, LENIENT]:
            assert code(command, config=config) == "control_syntax", (command, config)


@pytest.mark.statement("s3-control-syntax-is-refused")
def test_control_syntax_in_parameters_is_refused_unless_it_may_pass_on() -> None:
    for parameter in ["a&&b", "a|b", "a;b", ">x", "<x", "$(id)", "`id`", "a\nb", "a\rb", "5 > 3", "a&b"]:
        assert code("echo", parameter) == "control_syntax", parameter
        assert code("echo", parameter, config=LENIENT) is None, parameter


INERT = [
    ("echo", "a&b"), ("echo", "5 > 3"), ("grep", "a|b"), ("git", "commit", "-m", "one; two"),
    ("git", "log", "--format=%h <%an>"), ("curl", "https://example.com/?a=1&b=2"), ("echo", "$HOME"), ("echo", "it's"),
]  # fmt: skip


def test_what_is_inert_without_a_shell_passes_where_the_syntax_is_not_strict() -> None:
    for words in INERT:
        assert code(*words, config=LENIENT) is None, words


@pytest.mark.parametrize("words", [("ls -la",), ("git status",), ("codex exec 'do it'",), ("  npm   test ",)])
@pytest.mark.statement("s3-command-is-one-executable")
def test_a_command_of_several_words_is_told_how_to_split_them(words: tuple[str]) -> None:
    refused = judged(*words)

    assert refused is not None
    assert refused.code == "not_one_command"
    assert f"give command {words[0].split()[0]!r}" in refused.remedy


EXPANDED = [
    "cat$IFS/etc/hostname", "rm$IFS-rf$IFS/home/me", "{cat,/etc/passwd}", "$SHELL", "${SHELL}", "/bin/l?", "l*", "~/evil",
    "l's'", 'l"s', "l\\s", "!ls", "(ls)", "#ls", "ls\u00a0-la", "ls\u200b", "cat\u202e", "C:\\x",
]  # fmt: skip


def test_what_a_shell_would_expand_is_no_name_of_a_program() -> None:
    for command in EXPANDED:
        assert code(command) in ("control_syntax", "not_one_command"), command


SHELL_WORDS = ["A=1", "LD_PRELOAD=x", "eval", "exec", ".", "source", "command", "builtin", "trap", "if", "EVAL"]


def test_assignments_and_words_of_shells_are_no_programs() -> None:
    for command in SHELL_WORDS:
        assert code(command, "id") == "inline_script", command


INLINE_SCRIPTS = [
    ("sh", "-c", "id"), ("bash", "-c", "id"), ("bash", "-lc", "id"), ("bash", "-xc", "id"), ("bash", "-xec", "id"),
    ("bash", "-o", "pipefail", "-c", "id"), ("bash", "-oo", "posix", "pipefail", "-c", "id"), ("bash", "+xc", "id"),
    ("bash", "--norc", "-c", "id"), ("bash", "--rcfile", "x", "-c", "id"), ("bash", "-"), ("zsh", "-fc", "id"),
    ("fish", "-c", "id"), ("fish", "--command=id"), ("dash", "-ec", "id"), ("bash5", "-c", "id"), ("Bash", "-c", "id"),
    ("./bin/sh", "-c", "id"), ("cmd", "/c", "dir"), ("cmd.exe", "/K", "dir"),
    ("powershell", "-Command", "x"), ("pwsh", "-c", "x"), ("powershell", "-EncodedCommand", "x"), ("pwsh", "-enc", "x"),
    ("pwsh", "/Command", "x"), ("pwsh", "–Command", "x"), ("pwsh", "-NoLogo", "-ec", "x"),
    ("python", "-c", "x"), ("python3", "-c", "x"), ("python3", "-Ic", "x"), ("python3", "-cprint(1)"), ("python3.12", "-c", "x"),
    ("python3", "-W", "ignore", "-c", "x"), ("python3", "-X", "dev", "-Bc", "x"), ("python3", "-"), ("pypy3", "-c", "x"),
    ("python3", "-m", "timeit", "x"), ("python3", "-mtimeit", "x"), ("python3", "-B", "-m", "pdb", "-c", "x"),
    ("node", "-e", "x"), ("node", "--eval", "x"), ("node", "--eval=x"), ("node", "-p", "x"), ("node", "--print", "x"),
    ("node", "-pe", "x"), ("nodejs", "-e", "x"), ("node", "-r", "mod", "-e", "x"), ("node", "--require", "mod", "-e", "x"),
    ("node", "--import", "data:text/javascript,x"), ("node20", "-e", "x"),
    ("deno", "eval", "x"), ("deno", "--quiet", "eval", "x"), ("bun", "-e", "x"), ("bun", "--print", "x"), ("bun", "exec", "x"),
    ("perl", "-e", "x"), ("perl", "-ne", "x"), ("perl", "-lane", "x"), ("perl", "-E", "x"), ("perl", "-i.bak", "-pe", "x"),
    ("perl", "-0777ne", "x"), ("perl", "-de", "0"), ("perl", "-Mstrict", "x.pl"), ("perl5.36", "-e", "x"),
    ("ruby", "-e", "x"), ("ruby", "-ne", "x"), ("ruby", "-I", "lib", "-e", "x"), ("php", "-r", "x"), ("php", "-nr", "x"),
    ("php8.2", "-B", "x"), ("php", "--run", "x"), ("lua", "-e", "x"), ("lua5.4", "-e", "x"), ("luajit", "-e", "x"),
    ("Rscript", "-e", "x"), ("julia", "-e", "x"), ("julia", "--eval", "x"), ("erl", "-eval", "x"), ("expect", "-c", "x"),
    ("awk", 'BEGIN{system("id")}'), ("awk", "-F", ",", '{system("id")}'), ("gawk", "-e", "x"), ("awk", '{getline x}'),
    ("awk", 'BEGIN{ARGV[1]="/etc/passwd"}{print}'), ("awk", "--", 'BEGIN{system("id")}'), ("mawk", '@load "x"'),
    ("sed", "1e id"), ("sed", "s/a/b/e", "x"), ("sed", "-n", "w /tmp/x"), ("sed", "-e", "p", "-e", "r /etc/passwd"),
    ("sed", "-ne", "1e id"), ("sed", "--expression=1e id"), ("sed", "--exp", "1e id"), ("sed", "-e1e id"), ("sed", "-s", "e"),
    ("sqlite3", "x.db", ".shell id"), ("sqlite3", "x.db", ".system id"), ("sqlite3", "x.db", "select readfile('/etc/passwd')"),
    ("env", "sh", "-c", "id"), ("env", "A=1", "B=2", "python3", "-c", "x"), ("env", "A=1", "env", "bash", "-c", "x"),
    ("uv", "run", "python", "-c", "x"), ("poetry", "run", "bash", "-c", "id"), ("npm", "exec", "--", "node", "-e", "x"),
]  # fmt: skip


@pytest.mark.statement("s3-inline-code-is-refused")
def test_inline_scripts_are_refused_however_they_are_given() -> None:
    for words in INLINE_SCRIPTS:
        assert code(*words, config=LENIENT) == "inline_script", words


RUNNING_OTHERS = [
    ("env", "-i", "bash"), ("env", "-S", "sh -c id"), ("env", "-u", "X", "ls"), ("env", "LD_PRELOAD=x", "ls"), ("env", "PATH=.", "ls"),
    ("env", "NODE_OPTIONS=x", "node", "x.js"), ("env", "BASH_ENV=x", "bash", "x.sh"), ("env", "GIT_SSH_COMMAND=x", "git", "pull"),
    ("timeout", "5", "bash"), ("nohup", "ls"), ("xargs", "sh"), ("busybox", "sh"), ("busybox1.36", "sh"), ("nice", "ls"),
    ("setsid", "ls"), ("stdbuf", "-o0", "ls"), ("sudo", "ls"), ("doas", "ls"), ("time", "ls"), ("ssh", "host"), ("strace", "ls"),
    ("script", "-c", "id"), ("watch", "id"), ("parallel", "id"), ("vim", "-c", "!id"), ("flock", "x", "id"), ("npx", "x"),
    ("ld-linux-x86-64.so.2", "/bin/sh"), ("uv", "run", "--with", "x", "y"), ("poetry", "run", "xargs", "x"),
    ("find", ".", "-exec", "id"), ("find", ".", "-execdir", "id"), ("find", ".", "-ok", "id"), ("find", ".", "-delete"),
    ("find", ".", "-fprintf", "x"), ("fd", "-x", "id"), ("fd", "-xid"), ("rg", "--pre", "id", "x"), ("rg", "--pre=id", "x"),
    ("git", "-c", "core.pager=id", "log"), ("git", "--config-env=a=b", "log"),
    ("git", "--exec-path=x", "log"), ("git", "clone", "ext::sh", "x"), ("git", "clone", "--upload-pack=id", "x"),
    ("git", "clone", "--upload-pa=id", "x"), ("git", "clone", "-u", "id", "x"), ("git", "rebase", "-x", "id"),
    ("git", "rebase", "--exec=id"), ("git", "bisect", "run", "id"), ("git", "submodule", "foreach", "id"),
    ("git", "grep", "-Oid", "x"), ("git", "config", "alias.x", "!id"), ("git", "config", "core.pager", "id"),
    ("git", "config", "--global", "diff.x.textconv", "id"), ("git", "difftool", "-x", "id"), ("git", "filter-branch", "x"),
    ("tar", "--to-command=id", "-xf", "x"), ("tar", "xf", "x", "--checkpoint-action=exec=id"), ("tar", "-I", "id", "-xf", "x"),
    ("tar", "xIf", "id", "x"), ("tar", "--use-comp=id", "-xf", "x"), ("tar", "-xF", "id"), ("make", "SHELL=/bin/x"),
    ("make", "--eval=x"), ("make", "--ev=x"), ("rsync", "-e", "id", "a", "b"), ("rsync", "-ave", "id", "a", "b"),
    ("rsync", "--rsh=id", "a", "b"), ("split", "--filter=id", "x"), ("sort", "--compress-program=id", "x"),
    ("sort", "--compress-prog", "id", "x"), ("zip", "-TT", "id", "x"), ("npm", "--script-shell=x", "test"),
    ("scp", "-S", "id", "a", "b"),
    ("scp", "-oProxyCommand=id", "a", "b"), ("man", "-Pid", "ls"), ("go", "test", "-exec", "id"), ("cargo", "--config", "x", "build"),
]  # fmt: skip


def test_programs_and_options_that_run_other_programs_are_refused() -> None:
    for words in RUNNING_OTHERS:
        assert code(*words, config=LENIENT) == "runs_other_programs", words


EVERYDAY = [
    ("ls", "-la", "./"), ("npm", "test", "--", "tests/core/events/"), ("pwd",), ("npm", "run", "build"), ("[", "-f", "x", "]"),
    ("git", "status"), ("git", "commit", "-m", "fix the -c option"), ("git", "log", "--oneline", "-5"), ("git", "clean", "-x"),
    ("git", "config", "user.name", "me"), ("git", "checkout", "-b", "x"), ("python3", "x.py", "-c", "conf.ini"), ("bash", "x.sh", "-c"),
    ("python3", "-m", "pytest", "-q"), ("python3", "-m", "http.server"), ("python3", "-u", "x.py"), ("node", "x.js", "-e", "prod"),
    ("node", "--test"), ("perl", "-w", "x.pl", "-e"), ("ruby", "x.rb"), ("php", "x.php"), ("make", "all", "-j4"), ("make", "CC=gcc"),
    ("tar", "-czf", "x.tgz", "dir"), ("tar", "czf", "INFO.tgz", "dir"), ("tar", "-xf", "FILE.tar"), ("find", ".", "-name", "*.py"),
    ("grep", "-c", "x", "y"), ("grep", "-e", "x", "y"), ("wc", "-c", "x"), ("sort", "-c", "x"), ("sed", "-n", "1,5p", "x"),
    ("sed", "s/a/b/g", "x"), ("sed", "-i", "s#a#b#", "x"), ("sed", "-i.bak", "-e", "s/a/b/", "x"), ("sed", "--sandbox", "/a/d", "x"),
    ("awk", "{print $1}", "x"), ("awk", "-F,", "NR==1{print $2}", "x"), ("env",), ("env", "A=1", "node", "x.js"), ("g++", "-c", "x.cc"),
    ("rsync", "-a", "--exclude", "x", "a", "b"), ("uv", "run", "pytest", "-q"), ("pnpm", "exec", "tsc", "-p", "."),
    ("npm", "install", "x"),
    ("cargo", "test"), ("go", "test", "./..."), ("sqlite3", "x.db", "select 1"), ("pytest", "-k", "a"), ("curl", "-c", "jar", "x"),
    ("pwsh", "-ExecutionPolicy", "Bypass", "-File", "x.ps1"), ("echo", "hi"), ("'ls'",), ('"ls"',),
]  # fmt: skip


def test_everyday_commands_pass() -> None:
    for words in EVERYDAY:
        assert judged(*words) is None, words


@pytest.mark.parametrize("parameter", ["$HOME/.ssh/id_rsa", "${HOME}/.ssh/id_rsa", "$HOME", "${X}"])
def test_a_variable_is_told_that_nobody_expands_it(parameter: str) -> None:
    refused = judged("cat", parameter)

    assert refused is not None
    assert (refused.code, refused.remedy) == ("control_syntax", "write the value itself")


AI_COMMANDS = [("codex", True), ("gemini", True), ("copilot", True), ("CODEX", True), ("  Gemini  ", True), ("codex 'do it'", True),
 ("ls", False), ("codexx", False), ("", False), ("   ", False), ("my codex", False)]  # fmt: skip


def test_ai_commands_are_known_by_their_first_word_in_any_case() -> None:
    for command, is_one in AI_COMMANDS:
        assert is_ai_command(command, STRICT.ai_commands) is is_one, (command, is_one)


EXAMPLES = [
    {"command": "ls", "parameters": ["-la", "./"]},
    {"command": "npm", "parameters": ["test", "--", "tests/core/events/"], "timeout": 900000},
    {"command": "pwd", "directory": "./"},
    {
        "command": "npm",
        "parameters": ["run", "build"],
        "output_format": "json",
        "output_detail": "minimal",
        "artifact_paths": ["dist/app.js"],
    },
]


@pytest.mark.statement("s3-examples-run", "s3-timeout-is-in-milliseconds")
@pytest.mark.parametrize("example, seconds", list(zip(EXAMPLES, [600.0, 900.0, 600.0, 600.0], strict=True)))
def test_the_seeds_examples_are_taken_as_they_stand(example: dict[str, Any], seconds: float) -> None:
    request = read_request(example, STRICT)

    assert refuse_request(request, STRICT) is None
    assert request.timeout == seconds
