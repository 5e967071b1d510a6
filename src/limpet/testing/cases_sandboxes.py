"""Sandboxes: that they are isolated from each other, that they end, and that they can be attached to again."""

import socket

import anyio

from limpet.core.command import Exited, Lost
from limpet.core.errors import BootFailed, OfferMissing, SandboxClosed, SandboxGone
from limpet.core.ports import Offer, SandboxSpec, TimeToLive
from limpet.testing.lab import Lab, PromiseBroken, expect, finished, of, raises, read, same
from limpet.testing.suite import Cases

SANDBOXES = Cases()
case = SANDBOXES.case


@case()
async def the_probe_says_that_it_works(lab: Lab) -> None:
    with anyio.move_on_after(10):
        found = await lab.runtime.probe()
        expect(found.works and found.detail != "", f"a runtime that has just made a sandbox should say so: {found}")
        return
    expect(False, "the probe took longer than 10 s")


@case()
async def a_new_sandbox_is_empty_and_answers(lab: Lab) -> None:
    same(await lab.box.files.list(), [], "the entries of /mnt/data")
    await lab.box.touch()
    same((await lab.run("echo hello")).stdout, b"hello\n", "its first answer")


@case()
async def two_sandboxes_do_not_see_each_others_files(lab: Lab) -> None:
    other = await lab.another()
    await lab.run("echo secret > mine; echo secret > ~/mine; echo secret > /tmp/limpet-case-$$; echo $$ > pid")
    pid = int(await lab.box.files.read("pid"))
    script = f"exec 2> /dev/null; cat mine ~/mine /mnt/data/mine /home/agent/mine; ls; cat /tmp/limpet-case-{pid}"
    if Offer.ISOLATION not in lab.runtime.offers:
        await lab.run(f"rm /tmp/limpet-case-{pid}")
    same((await lab.run(script, box=other)).stdout, b"", "what the other sandbox can read")


@case()
async def two_sandboxes_have_boot_ids_of_their_own(lab: Lab) -> None:
    other = await lab.another()
    expect(other.boot_id != lab.box.boot_id, "both have the same boot id")
    same(other.ref.boot_id, other.boot_id, "the boot id in the ref")
    same(other.ref.runtime, lab.runtime.name, "the runtime in the ref")


@case()
async def an_exec_id_belongs_to_one_sandbox(lab: Lab) -> None:
    other = await lab.another()
    await finished(await lab.start("echo one", exec_id="same"))
    same(await other.find("same"), None, "what the other finds under that id")
    same((await finished(await lab.start("echo two", exec_id="same", box=other))).stdout, b"two\n", "its own output")


@case(Offer.ISOLATION)
async def the_hosts_files_are_out_of_reach(lab: Lab) -> None:
    planted = lab.directory / "planted"
    planted.write_text("secret of the host\n")
    ran = await lab.run(f"cat {planted}; cat /proc/1/root{planted}; ls {lab.directory}")
    same(ran.stdout, b"", "what a command reads of the host")


@case(Offer.ISOLATION)
async def no_network_is_reached_unless_one_was_given(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        places = f"127.0.0.1/{server.getsockname()[1]} 169.254.169.254/80 192.0.2.1/443"
        script = f"exec 2> /dev/null; for place in {places}; do (exec 3<> /dev/tcp/$place) && echo $place; done"
        same((await lab.run(script)).stdout, b"", "what a command could connect to")
        try:
            server.accept()[0].close()
        except BlockingIOError:
            return
    raise PromiseBroken("a server of the host was reached")


@case(Offer.ISOLATION, Offer.DETACHED)
async def two_sandboxes_do_not_see_each_others_processes(lab: Lab) -> None:
    other = await lab.another()
    await lab.run("cp /bin/sleep ./limpet-marked; ./limpet-marked 300 > /dev/null 2>&1 &")
    ran = await lab.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", box=other)
    expect(b"limpet-marked 300" not in ran.stdout, "a process of another sandbox is visible")


@case(Offer.DETACHED, Offer.DIRECTORY)
async def what_lives_in_a_sandbox_ends_with_it(lab: Lab) -> None:
    box = await lab.another(directory=lab.directory)
    beats = lab.directory / "data" / "beats"
    await lab.run("(setsid bash -c 'while :; do echo >> beats; sleep 0.02; done' &)", box=box)
    await lab.until_file("beats", box=box)
    await box.destroy()
    before = beats.stat().st_size
    await anyio.sleep(0.3)  # the absence of something needs a while to be seen
    same(beats.stat().st_size, before, "the beats of a process of an ended sandbox")


@case(Offer.DIRECTORY)
async def the_directory_outlives_the_sandbox(lab: Lab) -> None:
    first = await lab.another(directory=lab.directory)
    await lab.run("echo kept > file; echo kept > ~/file", box=first)
    await first.destroy()
    second = await lab.another(directory=lab.directory)
    same((await lab.run("cat file ~/file", box=second)).stdout, b"kept\nkept\n", "what the next sandbox reads")


@case()
async def destroying_ends_a_running_command_within_a_bound(lab: Lab) -> None:
    process = await lab.start("sleep 300")
    with anyio.move_on_after(5) as scope:
        await lab.box.destroy()
        outcome = await process.wait()
        if not isinstance(outcome, Lost):
            raise PromiseBroken(f"the outcome should be Lost, found {outcome}")
    expect(not scope.cancelled_caught, "it took longer than 5 s")


@case()
async def destroying_twice_is_quiet(lab: Lab) -> None:
    await lab.box.destroy()
    await lab.box.destroy()
    await lab.box.release()


@case()
async def use_after_the_end_is_an_error_that_says_so(lab: Lab) -> None:
    await lab.box.destroy()
    async with raises(SandboxClosed):
        await lab.start("true")
    async with raises(SandboxClosed):
        await lab.box.find("any")
    async with raises(SandboxClosed):
        await lab.box.touch()
    async with raises(SandboxClosed):
        await lab.box.files.list()


@case()
async def an_ended_sandbox_is_gone_for_whoever_attaches(lab: Lab) -> None:
    ref = lab.box.ref
    await lab.box.destroy()
    async with raises(SandboxGone):
        await lab.runtime.attach(ref)


@case()
async def the_name_of_a_living_sandbox_is_taken(lab: Lab) -> None:
    async with raises(BootFailed, naming=lab.box.ref.name):
        await lab.runtime.create(SandboxSpec(name=lab.box.ref.name))
    same((await lab.run("echo unharmed")).stdout, b"unharmed\n", "the living one")


@case()
async def what_is_not_offered_is_refused_when_the_sandbox_is_made(lab: Lab) -> None:
    for offer in set(Offer) - lab.runtime.offers:
        async with raises(OfferMissing, naming=offer.value):
            await lab.another(needs=frozenset({offer}))


@case(Offer.ATTACH)
async def a_released_sandbox_is_found_again_with_its_commands(lab: Lab) -> None:
    box = await lab.another(lifetime=TimeToLive(30))
    process = await lab.start("echo one; while [ ! -e go ]; do sleep 0.02; done; echo two", box=box, exec_id="long")
    async for chunk in process.output():
        if chunk.data.startswith(b"one"):
            break
    ref = box.ref
    await box.release()
    again = await lab.runtime.attach(ref)
    lab.adopt(again)
    same(again.boot_id, ref.boot_id, "the boot id")
    found = await again.find("long")
    assert found is not None
    await again.files.write("go", b"")
    same((await found.wait(), of(await read(found), "stdout")), (Exited(0), b"one\ntwo\n"), "the command's end")
