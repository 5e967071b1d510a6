"""What the loop counts. One registry for the whole gateway; `/metrics` writes it out."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 1800)


class Metrics:
    """Made once by the composition and handed to who counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "limpet_http_requests", "HTTP requests", ("method", "route", "status"), registry=self.registry
        )
        self.running = Gauge("limpet_responses_running", "Responses that run now", registry=self.registry)
        self.responses = Counter("limpet_responses", "Responses by how they ended", ("status",), registry=self.registry)
        self.commands = Counter("limpet_commands", "Commands by how they ended", ("outcome",), registry=self.registry)
        self.seconds = Histogram(
            "limpet_command_seconds", "Time of commands, boot not counted", buckets=_SECONDS, registry=self.registry
        )
        self.files = Counter("limpet_captured_files", "Files that commands wrote", registry=self.registry)
