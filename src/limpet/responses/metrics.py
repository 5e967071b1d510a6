"""The gateway's metrics, in one registry that `/metrics` writes out. docs/operating.md says what to watch."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from limpet.containers.admission import AdmissionCounts
from limpet.containers.doors import DoorCounts
from limpet.egress.policy import Reason
from limpet.responses.budgets import BudgetStop, Spending
from limpet.upstreams.usage import Usage

_SECONDS = (0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 1800)
ALLOWED = "allowed"
# A boot takes tens of milliseconds, a look for changes a few.
_SHORT = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Metrics:
    """Made once by the composition and handed to who counts; a `containers.meter.Meter`."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter("limpet_http_requests", "HTTP requests", ("method", "route", "status"), registry=own)
        self.running = Gauge("limpet_responses_running", "Responses that run now", registry=own)
        self.queued = Gauge("limpet_responses_queued", "Responses that wait for a place now", registry=own)
        self.webhooks = Counter("limpet_webhooks", "Attempts to deliver an event", ("result",), registry=own)
        self.responses = Counter("limpet_responses", "Responses by how they ended", ("status",), registry=own)
        self.commands = Counter("limpet_commands", "Commands by how they ended", ("outcome",), registry=own)
        self.seconds = Histogram(
            "limpet_command_seconds", "Time of commands, boot not counted", buckets=_SECONDS, registry=own
        )
        self.files = Counter("limpet_captured_files", "Files that commands wrote", registry=own)
        self._boots = Counter("limpet_boots", "Boxes that booted, or could not", ("result",), registry=own)
        self._boot_seconds = Histogram("limpet_boot_seconds", "Time until a box answered", buckets=_SHORT, registry=own)
        self._wakes = Counter("limpet_wakes", "Boots of containers that had had a box before", registry=own)
        self._captures = Histogram(
            "limpet_capture_seconds", "Time of looks for changed files", buckets=_SHORT, registry=own
        )
        self._waits = Histogram(
            "limpet_box_wait_seconds", "Time in the line for a box", buckets=(0.001, *_SECONDS[1:]), registry=own
        )
        self._living = Gauge("limpet_boxes_living", "Boxes that live now", registry=own)
        self._busy = Gauge("limpet_boxes_busy", "Living boxes that are in use now", registry=own)
        self._waiting = Gauge("limpet_boxes_waiting", "Callers in the line for a box now", registry=own)
        self._evictions = Counter("limpet_evictions", "Idle boxes that ended for others", registry=own)
        self._stored = Gauge("limpet_stored_bytes", "Bytes that are kept now", ("area", "backend"), registry=own)
        self._connections = Counter(
            "limpet_network_connections", "Decisions of the doors of boxes", ("result",), registry=own
        )
        self._carried = Counter("limpet_network_bytes", "Bytes that doors carried", ("direction",), registry=own)
        self._doors = Gauge("limpet_network_doors", "Boxes with a door now", registry=own)
        self._through = Gauge("limpet_network_open", "Connections of boxes through their doors now", registry=own)
        self._turns = Counter("limpet_model_turns", "Model turns of responses that ended", registry=own)
        self._tokens = Counter("limpet_tokens", "Tokens of responses that ended", ("kind",), registry=own)
        self._stops = Counter(
            "limpet_budgets_reached", "Responses that a budget ended", ("scope", "limit"), registry=own
        )
        self._evicted = 0
        self._begin()

    def _begin(self) -> None:
        """A rate needs the zero before the first."""
        for result in ("booted", "failed"):
            self._boots.labels(result)
        for result in (ALLOWED, *(reason.value for reason in Reason)):
            self._connections.labels(result)
        for direction in ("sent", "received"):
            self._carried.labels(direction)

    def spent(self, own: Spending, usage: Usage | None, *, stopped_by: BudgetStop | None) -> None:
        """What a response has used up, at its end."""
        self._turns.inc(own.turns)
        if usage is not None:
            self._tokens.labels("input").inc(usage.input_tokens)
            self._tokens.labels("cached").inc(usage.input_tokens_details.cached_tokens)
            self._tokens.labels("output").inc(usage.output_tokens)
        if stopped_by is not None:
            self._stops.labels(stopped_by.scope, stopped_by.limit).inc()

    def waited(self, seconds: float) -> None:
        self._waits.observe(seconds)

    def booted(self, seconds: float, *, is_wake: bool) -> None:
        self._boots.labels("booted").inc()
        self._boot_seconds.observe(seconds)
        if is_wake:
            self._wakes.inc()

    def boot_failed(self) -> None:
        self._boots.labels("failed").inc()

    def captured(self, seconds: float) -> None:
        self._captures.observe(seconds)

    def reached(self, result: str, *, sent: int, received: int) -> None:
        self._connections.labels(result).inc()
        self._carried.labels("sent").inc(sent)
        self._carried.labels("received").inc(received)

    def look(self, boxes: AdmissionCounts, stored: Mapping[tuple[str, str], int], doors: DoorCounts) -> None:
        """Take in how things stand now: `stored` are bytes by area and backend."""
        self._doors.set(doors.doors)
        self._through.set(doors.connections)
        self._living.set(boxes.living)
        self._busy.set(boxes.busy)
        self._waiting.set(boxes.waiting)
        self._evictions.inc(boxes.evicted - self._evicted)
        self._evicted = boxes.evicted
        self._stored.clear()
        for (area, backend), size in stored.items():
            self._stored.labels(area, backend).set(size)
