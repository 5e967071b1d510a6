"""A program whose wall clock can be set while it runs, and no other program's: its calls of clock_gettime(2) pass through a library that
adds what a file says. Made by the host's compiler."""

import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long long *ahead;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void open_file(void) {
    const char *name = getenv("LIMPET_TEST_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *place = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    real = dlsym(RTLD_NEXT, "clock_gettime");
    ahead = place == MAP_FAILED ? 0 : place;
}

int clock_gettime(clockid_t which, struct timespec *now) {
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(which, now);
    if (!failed && which == CLOCK_REALTIME && ahead) now->tv_sec += *ahead;
    return failed;
}

time_t time(time_t *kept) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept) *kept = now.tv_sec;
    return now.tv_sec;
}
"""


@dataclass(frozen=True, slots=True)
class WallClock:
    """Of the programs that are started with `environment`."""

    library: Path
    file: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "LIMPET_TEST_CLOCK": str(self.file)}

    def set_ahead(self, seconds: int) -> None:
        """So far ahead of the host's, or behind it."""
        with self.file.open("r+b") as file:
            file.write(struct.pack("q", seconds))


def wall_clock(directory: Path) -> WallClock:
    """One that shows the host's time; skips, in words, where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("a clock that can be set is compiled, and there is no cc here")
    source, clock = directory / "clock.c", WallClock(directory / "clock.so", directory / "clock")
    source.write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", clock.library, source, "-ldl"], check=True)
    clock.file.write_bytes(bytes(8))
    return clock
