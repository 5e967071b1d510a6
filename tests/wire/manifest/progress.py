"""How far the work is: which promises are held, and which of them wait for their test.

A promise is *held* when its work is delivered or when it was kept early; every other one is *open*, and no test may carry it.
To deliver a work, add its letter to DELIVERED and the ids that have no test yet to NOT_YET_PROVED. To keep a promise of a later
work early, mark its test and add its id to EARLY.
"""

from tests.wire.manifest.promise import Promise, Work

DELIVERED: frozenset[Work] = frozenset({"A1"})
EARLY: frozenset[str] = frozenset(
    {
        "captured-bytes-have-a-configurable-home",
        "container-file-is-removed",
        "container-files-are-not-files-api-files",
        "container-files-default-to-the-filesystem",
        "container-files-live-in-a-bucket",
        "container-files-live-in-a-directory",
        "container-files-post-takes-a-file-id",
        "container-files-post-uploads-into-mnt-data",
        "containers-list-shows-the-callers-own",
        "containers-post-takes-a-memory-limit",
        "containers-post-takes-an-expiry",
        "containers-post-takes-skills",
        "environment-of-a-chained-turn-narrows-the-chains-container",
        "expires-after-of-the-tool-is-taken",
        "expires-at-after-the-end-is-the-transition",
        "expires-at-is-a-forward-estimate",
        "hadrian-another-tenants-ids-are-unknown",
        "hadrian-cleanup-runs-by-itself",
        "hadrian-containers-switch-does-what-it-says",
        "hadrian-deleted-file-stays-deleted",
        "hadrian-environment-union-is-checked",
        "files-of-detached-processes-are-captured-later",
        "hadrian-capture-costs-what-changed",
        "hadrian-file-ids-are-the-ones-shown",
        "hadrian-history-is-not-staged-again",
        "hadrian-model-is-told-the-staged-names",
        "hadrian-oversized-file-stays-marked",
        "hadrian-quotas-bound-each-tenant",
        "hadrian-stored-limits-hold-at-a-later-boot",
        "hadrian-upload-appears-in-a-live-container",
        "hadrian-file-url-checks-every-redirect",
        "hadrian-file-url-refuses-http",
        "hosted-tools-of-others-are-relayed-or-refused",
        "input-file-by-data-is-decoded",
        "input-file-by-id-comes-from-the-files-api",
        "input-file-by-url-is-fetched-over-https-only",
        "input-file-example-is-accepted",
        "input-files-are-put-into-the-workspace",
        "input-files-land-before-the-first-command",
        "input-files-without-a-name-get-one",
        "inline-markdown-becomes-skill-md",
        "inline-zip-skill-is-unpacked",
        "last-active-at-moves-with-every-operation",
        "memory-default-and-cap-hold",
        "memory-limit-of-the-tool-is-taken",
        "other-inline-skill-types-are-refused",
        "reaper-acts-within-five-seconds",
        "request-narrows-the-operators-limits",
        "skill-reference-resolves-to-a-stored-skill",
        "skill-version-may-be-pinned",
        "skills-are-mounted-into-the-box",
        "unenforceable-network-policy-is-refused",
        "unknown-skill-version-is-refused",
    }
)

# Held promises without a test. It only shrinks: an id that has a marked test fails here until it is taken out.
NOT_YET_PROVED: frozenset[str] = frozenset()


def is_held(promise: Promise) -> bool:
    """Whether a promise counts as kept; otherwise it is open."""
    return promise.owed_by in DELIVERED or promise.id in EARLY
