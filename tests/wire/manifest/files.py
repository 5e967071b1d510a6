"""Files that go into a container and files that come out of it (lines 101 to 130)."""

from tests.wire.manifest.promise import Promise, span

FILES = (
    Promise(
        id="input-file-example-is-accepted",
        owed_by="C",
        lines=span(103, 116),
        decided="seed examples",
        says=(
            "The seed's request with three `input_file` parts is accepted as it stands, with ids and hosts that exist."
        ),
    ),
    Promise(
        id="input-file-by-id-comes-from-the-files-api",
        owed_by="C",
        lines=(110, 116, 232),
        says=(
            "An `input_file` with `file_id` brings a file that was uploaded through `/v1/files`; no other upload "
            "is needed for the shell."
        ),
    ),
    Promise(
        id="input-file-by-url-is-fetched-over-https-only",
        owed_by="C",
        lines=(111, 116),
        decided="egress dialer",
        says=(
            "An `input_file` with `file_url` is fetched over https, and no address inside the gateway's own "
            "networks is ever dialed for it."
        ),
    ),
    Promise(
        id="input-file-by-data-is-decoded",
        owed_by="C",
        lines=(112, 116),
        says="An `input_file` with `file_data` brings the bytes of its data URL.",
    ),
    Promise(
        id="input-files-land-before-the-first-command",
        owed_by="C",
        lines=(117,),
        says="Every resolved file is at `/mnt/data/<filename>` before the first command runs.",
    ),
    Promise(
        id="input-files-without-a-name-get-one",
        owed_by="C",
        lines=(117,),
        decided="names without filename",
        says=(
            "Without `filename`, `file_data` becomes `upload` with the extension of its type, and `file_url` "
            "keeps the last part of its path."
        ),
    ),
    Promise(
        id="written-files-are-in-the-containers-file-store",
        owed_by="A1",
        lines=(119, 120),
        says=(
            "A file that the model writes under `/mnt/data` is listed among the container's files when the "
            "response ends."
        ),
    ),
    Promise(
        id="files-of-detached-processes-are-captured-later",
        owed_by="C",
        lines=(119,),
        decided="capture",
        says=(
            "Files that detached processes write are captured at the next command, at the response's end, before "
            "expiry, and when files are listed."
        ),
    ),
    Promise(
        id="reply-cites-the-files-that-were-written",
        owed_by="A1",
        lines=(121, 122),
        decided="citations",
        says=(
            "The assistant's message carries one `container_file_citation` for every file that the model wrote in "
            "this response and for nothing else, in the stream and in the stored response."
        ),
    ),
    Promise(
        id="many-files-stay-with-the-call-that-wrote-them",
        owed_by="C",
        lines=(119,),
        says="What a call wrote stands in its own `output_files`, up to 1,000 files, the rest as `output_files_omitted`.",
    ),
    Promise(
        id="generated-trees-are-neither-recorded-nor-cited",
        owed_by="C",
        lines=(119,),
        says="What tools generate (version control, packages, virtual environments, caches) is neither recorded nor cited.",
    ),
    Promise(
        id="files-that-are-gone-at-the-end-are-not-cited",
        owed_by="C",
        lines=(119,),
        says="A file that is gone when the response ends is not cited in it.",
    ),
    Promise(
        id="captured-file-is-downloaded-byte-for-byte",
        owed_by="A1",
        lines=(123,),
        says="`GET /v1/containers/{id}/files/{file}/content` answers with the bytes of the captured file.",
    ),
    Promise(
        id="container-files-are-not-files-api-files",
        owed_by="C",
        lines=span(124, 126),
        says=(
            "A container's file is not listed by `/v1/files`; downloaded from the container and uploaded there it "
            "becomes one."
        ),
    ),
    Promise(
        id="captured-bytes-have-a-configurable-home",
        owed_by="C",
        lines=(127,),
        says="`[storage.container_files]` says where captured bytes live.",
    ),
    Promise(
        id="container-files-default-to-the-filesystem",
        owed_by="C",
        lines=(127, 128),
        decided="database as default store of container files",
        says=(
            'Captured bytes live in the filesystem by default, and in the database with `backend = "database"`, '
            "which is the seed's default."
        ),
    ),
    Promise(
        id="container-files-live-in-a-directory",
        owed_by="C",
        lines=(129,),
        says='`backend = "filesystem"` keeps captured bytes under the given path.',
    ),
    Promise(
        id="container-files-live-in-a-bucket",
        owed_by="C",
        lines=(129, 130),
        says='`backend = "s3"` keeps captured bytes in a bucket that speaks S3.',
    ),
)
