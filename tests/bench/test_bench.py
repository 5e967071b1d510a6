import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def bench(*args: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bench", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)


def test_a_benchmark_prints_its_rows_beside_their_floor() -> None:
    done = bench("--quick", "--runtime", "local", "boot")
    assert (done.returncode, "boot to first output, local" in done.stdout) == (0, True), done.stderr


def test_a_turn_and_a_relay_are_measured_through_a_gateway() -> None:
    done = bench("--quick", "--runtime", "local", "turn", "relay")
    assert (done.returncode, "not measured" in done.stdout) == (0, False), done.stderr
    assert "one turn over HTTP, local, streamed" in done.stdout
    assert "relay of a provider's 2000 pieces of text, stored" in done.stdout


def test_files_are_measured_both_ways() -> None:
    done = bench("--quick", "--runtime", "memory", "files")
    assert (done.returncode, "not measured" in done.stdout) == (0, False), done.stderr
    assert "upload of 25 MiB" in done.stdout
    assert "download of 25 MiB" in done.stdout


def test_a_benchmark_that_nobody_knows_is_refused() -> None:
    done = bench("nonsense")
    assert (done.returncode, "there is no benchmark nonsense" in done.stderr) == (2, True)


def test_a_runtime_that_is_not_there_is_named_and_the_run_fails() -> None:
    done = bench("--quick", "--runtime", "docker", "warm")
    assert (done.returncode, "warm: not measured. " in done.stdout) == (1, True)


def test_many_containers_are_a_matter_of_boxes() -> None:
    done = bench("--quick", "--runtime", "memory", "containers")
    assert (done.returncode, "containers: not measured. Only boxes of bubblewrap" in done.stdout) == (0, True), (
        done.stderr
    )
