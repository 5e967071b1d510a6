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
# These count what the whole machine has, and must not run beside each other.
COUNTING = "tests/runtimes/bubblewrap/test_in_containers.py"


class LongTestsFirst(LoadScopeScheduling):
    """A file is one piece of work, so that what its tests share is started once, but for the tests of LONG. xdist's own marks for that
    (`xdist_group`) have no effect under pytest 9.2, which gives a test's id from elsewhere than xdist 3.8 changes it."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if file.startswith(LONG) and file != COUNTING else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        first = next((scope for scope in self.workqueue if scope.startswith(LONG)), None)
        if first is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)
