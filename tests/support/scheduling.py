"""Where several tests run at once: which of them stay on one worker, and which begin first."""

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# Their tests are long and share nothing that is slow to start: each is a piece of work of its own. They begin before all others, so that
# no worker is left with one when the rest have ended.
LONG = (
    "tests/bench/",
    "tests/clients/",
    "tests/contract/",
    "tests/faults/",
    "tests/runtimes/",
    "tests/test_docs_examples.py",
    "tests/workspace/test_network.py",
)
# Of these files and folders all tests are one piece.
TOGETHER = (
    # They count what the whole machine has, and must not run beside each other.
    "tests/runtimes/bubblewrap/test_in_containers.py",
    # What they share is slow to start.
    "tests/faults/test_nodes.py",
    "tests/runtimes/docker/",
)
# The files that are long as a whole, next in line.
LONG_FILES = ("tests/cli/", "tests/integrations/", "tests/mcp/", "tests/wire/", "tests/workspace/")


class LongTestsFirst(LoadScopeScheduling):
    """Any other file is one piece of work, so that what its tests share is started once. xdist's own marks for that (`xdist_group`) have
    no effect under pytest 9.2, which gives a test's id from elsewhere than xdist 3.8 changes it."""

    def _split_scope(self, nodeid: str) -> str:
        for shared in TOGETHER:
            if nodeid.startswith(shared):
                return shared
        return nodeid if nodeid.startswith(LONG) else nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        # Of several in the same place the one with the most tests is first, as xdist has sorted them.
        self.workqueue.move_to_end(min(self.workqueue, key=_place), last=False)
        super()._assign_work_unit(node)


def _place(scope: str) -> int:
    if scope.startswith(LONG):
        return 0
    return 1 if scope.startswith(LONG_FILES) else 2
