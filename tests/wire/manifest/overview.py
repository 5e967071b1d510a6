"""What the seed promises at a glance, and the runtimes that it names (lines 1 to 49)."""

from tests.wire.manifest.promise import Promise, span

OVERVIEW = (
    Promise(
        id="responses-request-runs-commands-in-a-container",
        owed_by="A1",
        lines=(2, 3),
        says=(
            "A `POST /v1/responses` with a shell tool lets the model run shell commands, which run in a container "
            "that outlives the request."
        ),
    ),
    Promise(
        id="workspace-keeps-what-was-written",
        owed_by="A1",
        lines=(4,),
        says=(
            "What one command writes in the workspace is read by the next command, in the same response and in "
            "later ones."
        ),
    ),
    Promise(
        id="work-is-chained-over-turns",
        owed_by="A1",
        lines=(5,),
        says="Work that one response began goes on in the next, over any number of turns.",
    ),
    Promise(
        id="shell-works-behind-any-provider",
        owed_by="A1",
        lines=span(6, 8),
        says=(
            "The same request with a shell tool works with every provider type that the gateway serves: `script`, "
            "`openai`, `openai_chat`, `anthropic`."
        ),
    ),
    Promise(
        id="shell-works-behind-bedrock-vertex-and-azure",
        owed_by="D",
        lines=(8, 13),
        decided="providers: refused at start until built",
        says=(
            "The same request with a shell tool works with the provider types `bedrock`, `vertex` and `azure_openai`."
        ),
    ),
    Promise(
        id="container-is-named-by-a-cntr-id",
        owed_by="A1",
        lines=(10,),
        decided="rows and ids",
        says="Every hosted shell call runs in a persistent Linux container whose id is `cntr_` and 32 hex digits.",
    ),
    Promise(
        id="container-is-reused-through-previous-response-id",
        owed_by="A1",
        lines=(11,),
        says=(
            "A response with `previous_response_id` runs its commands in the container of the response that it names."
        ),
    ),
    Promise(
        id="idle-container-is-reaped",
        owed_by="A1",
        lines=(11,),
        says="A container that nobody has used for its idle TTL is expired, and its box ends with everything in it.",
    ),
    Promise(
        id="mnt-data-is-the-writable-workdir",
        owed_by="A1",
        lines=(12,),
        says="Commands start in `/mnt/data`, which is writable, on every hosted runtime.",
    ),
    Promise(
        id="local-runtime-names-its-data-directory",
        owed_by="A1",
        lines=(12,),
        decided="/mnt/data on local without privileges",
        says=(
            "Where `/mnt/data` cannot be made (`local` without privileges) the tool description names the "
            "directory that stands for it, and `LIMPET_DATA` holds its path on every runtime."
        ),
    ),
    Promise(
        id="input-files-are-put-into-the-workspace",
        owed_by="C",
        lines=(12,),
        says="Files that a request brings as `input_file` parts are in `/mnt/data`.",
    ),
    Promise(
        id="written-files-are-captured-and-downloadable",
        owed_by="A1",
        lines=(12,),
        says="Files that a command writes under `/mnt/data` are captured and can be downloaded.",
    ),
    Promise(
        id="shell-tool-is-declared-as-openai-does",
        owed_by="A1",
        lines=(12, 13),
        says='`{"type": "shell"}`, with nothing else, declares a hosted shell.',
    ),
    Promise(
        id="model-without-a-native-shell-gets-a-function-tool",
        owed_by="A1",
        lines=(13,),
        says=(
            "A provider whose models know no shell tool is given a function tool in its place, and the model's "
            "call of it comes out as a `shell_call`."
        ),
    ),
    Promise(
        id="runtime-is-chosen-by-configuration",
        owed_by="A1",
        lines=(13, 14, 18),
        says="`[features.shell] type` chooses the runtime that executes hosted shell calls.",
    ),
    Promise(
        id="background-response-is-streamed-later",
        owed_by="D",
        lines=(16,),
        says=(
            "A request with `background: true` is answered before the work is done, and `GET "
            "/v1/responses/{id}?stream=true` streams it later."
        ),
    ),
    Promise(
        id="unbuilt-runtime-or-provider-is-refused-at-start",
        owed_by="A1",
        lines=span(21, 24),
        decided="a runtime or provider type not built yet",
        says=(
            "A runtime or provider type that is not built yet is refused at start with a sentence that names "
            "those that are; nothing takes its place silently."
        ),
    ),
    Promise(
        id="passthrough-openai-runs-in-openais-container",
        owed_by="D",
        lines=(14, 21),
        says=(
            "With `passthrough_openai` the shell tool goes to OpenAI unchanged, and its hosted container runs the "
            "commands."
        ),
    ),
    Promise(
        id="passthrough-openai-relays-the-containers-api",
        owed_by="D",
        lines=(21,),
        decided="passthrough_openai",
        says="With `passthrough_openai` the `/v1/containers` calls are relayed to the provider.",
    ),
    Promise(
        id="passthrough-openai-refuses-reference-secrets",
        owed_by="D",
        lines=(21,),
        decided="passthrough_openai",
        says=(
            "With `passthrough_openai` a secret named by reference is refused with 400, since its value would "
            "leave the gateway."
        ),
    ),
    Promise(
        id="client-passthrough-leaves-execution-to-the-client",
        owed_by="D",
        lines=(15, 22, 230),
        says=(
            "With `client_passthrough` a shell call goes to the client, which runs it and sends the output with "
            "its next request; the gateway runs nothing."
        ),
    ),
    Promise(
        id="microsandbox-runs-each-container-in-its-own-microvm",
        owed_by="F",
        lines=(15, 23),
        says=(
            "With `microsandbox` each container is a microVM of its own on the gateway's machine; it is an "
            "optional extra, and its absence is told at start."
        ),
    ),
    Promise(
        id="opensandbox-runs-containers-in-a-remote-service",
        owed_by="F",
        lines=(15, 24),
        says=(
            "With `opensandbox` each container is a sandbox of the configured remote service; it is an optional "
            "extra, and its absence is told at start."
        ),
    ),
    Promise(
        id="toml-example-passthrough-openai-is-accepted",
        owed_by="D",
        lines=span(25, 27),
        decided="seed examples",
        says="The seed's configuration for `passthrough_openai` starts the gateway as it stands.",
    ),
    Promise(
        id="toml-example-client-passthrough-is-accepted",
        owed_by="D",
        lines=span(28, 30),
        decided="seed examples",
        says="The seed's configuration for `client_passthrough` starts the gateway as it stands.",
    ),
    Promise(
        id="toml-example-microsandbox-is-accepted",
        owed_by="F",
        lines=span(31, 36),
        decided="seed examples",
        says=(
            "The seed's configuration for `microsandbox`, with image, cpus and memory_mb, starts the gateway as "
            "it stands."
        ),
    ),
    Promise(
        id="bubblewrap-takes-image-cpus-and-memory",
        owed_by="A1",
        lines=span(34, 36),
        decided="bubblewrap's keys",
        says=(
            "`[features.shell]` takes `image` (a root directory, an archive or a name, the host's `/usr` by default), `cpus` (1) and "
            "`memory_mb` (512) for `bubblewrap`."
        ),
    ),
    Promise(
        id="default-and-requested-memory-go-before-the-runtimes",
        owed_by="A2",
        lines=(36, 187),
        decided="bubblewrap's keys",
        says=(
            "A box's memory is the request's `memory_limit`, else `default_mem_limit_mb`, else the runtime's "
            "`memory_mb`."
        ),
    ),
    Promise(
        id="passthrough-behind-another-provider-is-refused",
        owed_by="D",
        lines=span(36, 39),
        decided="passthrough behind another provider",
        says=(
            "With `passthrough_openai` a request routed to any other provider gets 400 with code "
            "`shell_passthrough_unsupported_provider` and a message that names the provider."
        ),
    ),
    Promise(
        id="passthrough-counts-a-provider-without-native-shell-as-another",
        owed_by="D",
        lines=(36, 37),
        decided="passthrough_openai",
        says="A provider with `native_shell = false` counts as one that cannot run OpenAI's hosted shell.",
    ),
    Promise(
        id="client-passthrough-works-behind-every-provider",
        owed_by="D",
        lines=(39, 40),
        says="`client_passthrough` works with every provider type.",
    ),
    Promise(
        id="client-passthrough-emits-shell-calls-for-every-provider",
        owed_by="D",
        lines=(40, 41),
        decided="client_passthrough",
        says=(
            "With `client_passthrough` the client sees `shell_call` items whoever the provider is, and a "
            '`function_call` named `shell` only where `client_item = "function_call"` asks for it.'
        ),
    ),
    Promise(
        id="client-passthrough-call-data-is-the-same-for-every-provider",
        owed_by="D",
        lines=(41,),
        says=(
            "Commands, time limit and output limit of a call given to the client are the same whichever provider "
            "made it."
        ),
    ),
    Promise(
        id="command-returns-when-its-own-shell-ends",
        owed_by="A1",
        lines=(43,),
        decided="the word: ends",
        says=(
            "A command ends when its shell has ended and its pipes are closed, or 100 ms after its shell when "
            "something it left behind still holds them."
        ),
    ),
    Promise(
        id="box-runs-on-between-calls",
        owed_by="A1",
        lines=(43, 44),
        says="A container's box keeps running between commands.",
    ),
    Promise(
        id="detached-process-outlives-its-command",
        owed_by="A1",
        lines=(44, 45),
        decided="detached processes",
        says=(
            "A process that a command detaches (`nohup … &`, `disown`, `setsid`, a supervisor) is alive after the "
            "command has returned."
        ),
    ),
    Promise(
        id="detached-process-is-seen-by-later-calls-of-the-chain",
        owed_by="A1",
        lines=(45, 46),
        says=(
            "A detached process is seen by the commands of later responses in the same `previous_response_id` chain."
        ),
    ),
    Promise(
        id="detached-process-is-seen-through-a-container-reference",
        owed_by="A1",
        lines=(46,),
        says=(
            "A detached process is seen by the commands of a response that names the container with "
            "`container_reference`."
        ),
    ),
    Promise(
        id="timeout-kills-the-whole-tree-of-its-own-command",
        owed_by="A1",
        lines=(44, 190),
        decided="detached processes",
        says=(
            "A timeout kills every descendant of its own command, `setsid` children included, and none of another "
            "command."
        ),
    ),
    Promise(
        id="detached-process-ends-with-its-expired-container",
        owed_by="A1",
        lines=span(46, 49),
        decided="detached processes",
        says=(
            "A detached process does not hold a container: when the idle TTL has passed without use, it ends with "
            "the box."
        ),
    ),
    Promise(
        id="idle-ttl-is-counted-from-the-last-use",
        owed_by="A1",
        lines=(47, 48),
        decided="idle TTL",
        says="The idle TTL counts from the last operation on the container, and a running command holds it.",
    ),
)
