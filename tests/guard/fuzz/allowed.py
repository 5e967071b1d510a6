"""The names that the fuzzed policy allows: what reads, what writes files, what runs other programs, and builtins. No interpreter."""

ALLOWED = frozenset(
    """
    ls cat wc grep echo printf head tail sort uniq cut tr find sed awk xargs env timeout nice nohup setsid stdbuf flock time cd pwd test [
    read mapfile readarray getopts true false git tar seq tee cp mv ln mkdir touch date sleep basename dirname diff stat file du rev tac
    declare typeset local export readonly let unset type kill umask ulimit pushd popd dirs jobs hash help printenv yes expr id whoami
    cmp comm paste nl od realpath readlink mktemp split dd truncate chmod gzip busybox times enable alias bind complete compgen f g
    """.split()
)  # fmt: skip
# What needs no name.
STEERING = frozenset("exit trap wait set eval".split())
