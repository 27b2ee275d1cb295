"""What the dashboard shows of the broker at one moment: the schema of the stream."""

from typing import Literal

from pydantic import BaseModel, Field

from broker.admin.rows import AddressRow, BridgeRow, GroupRow


class Rates(BaseModel):
    """What has happened since the moment before, per second."""

    received: float = Field(description="PUBLISHes from clients.")
    sent: float = Field(description="PUBLISHes to clients, with resent ones.")
    acknowledged: float = Field(description="Deliveries that clients have acknowledged.")
    bytes_received: float
    bytes_sent: float
    gated: dict[str, float] = Field(description="QoS 0 that the gate has queued, by reason (FC-3).")
    dropped: dict[str, float] = Field(description="Deliveries given up, by reason (FC-5).")
    bridges: dict[str, float] = Field(description="Deliveries sent to remote brokers, by the bridge.")


class SlowRow(BaseModel):
    """A connected session with a backlog, and what holds it back."""

    client_id: str
    waits_for: str
    because: str = Field(description="The reason, in the words of the report.")
    advice: str = Field(description="Why it waits, and which key of the configuration changes it.")
    for_us: int = Field(description="For how long there has been a backlog, at most since the client has connected.")
    mqueue_len: int
    mqueue_bytes: int
    max_mqueue_len: int = Field(description="0 = no limit.")
    window_len: int
    window_limit: int
    sent: float = Field(description="Deliveries sent to it, per second.")
    dropped: int = Field(description="Since the session began.")
    paced: bool = Field(description="Whether publishers are paced for it (FC-16).")


class DroppingRow(BaseModel):
    """A session of which deliveries are dropped, connected or not."""

    client_id: str
    connected: bool
    dropped: float = Field(description="Deliveries a second.")
    reason: str = Field(description="Why most were dropped in this interval of the metrics, such as queue_full.")
    advice: str = Field(description="What changes it.")
    mqueue_len: int
    max_mqueue_len: int = Field(description="0 = no limit.")


class AwayRow(BaseModel):
    """A session whose client is away, and for which something waits."""

    client_id: str
    waiting: int = Field(description="Deliveries in its mqueue and its window.")


class Finding(BaseModel):
    """One sentence that an operator should read."""

    kind: Literal["cell", "dropped", "slow", "waits", "away", "brief", "well"]
    client_id: str = Field(default="", description="Of the session that it is about, which begins it; empty = none.")
    text: str = Field(description="The sentence, without its end.")
    drops: str = Field(default="", description="Why deliveries are dropped, such as queue_full: its end.")
    advice: str = ""


class TalkerRow(BaseModel):
    """A session with much traffic: messages per second."""

    client_id: str
    received: float
    sent: float


class Present(BaseModel):
    """What every moment has."""

    broker: str
    version: str
    time_us: int = Field(description="Microseconds since 1970 UTC.")
    uptime_seconds: int
    not_ready_because: list[str] = Field(description="Empty if clients may connect.")


class Moment(Present):
    """The broker at one moment."""

    sessions: int
    connected: int
    waits_for: dict[str, int] = Field(description="Sessions by what they wait for.")
    congested: int = Field(description="Sessions whose send path is congested.")
    window_full: int = Field(description="Sessions whose window is full.")
    paced_for: int = Field(description="Sessions for which publishers are paced (FC-16).")
    mqueue_len: int = Field(description="Deliveries that wait in all mqueues, those of groups too.")
    window_len: int = Field(description="Deliveries sent and not acknowledged.")
    addresses_full: int
    rates: Rates | None = Field(description="null in the first moment after nobody has looked.")
    findings: list[Finding] = Field(description="What is dropped comes first, then who is slow, then who is away.")
    dropping: list[DroppingRow] = Field(description="Those of which most is dropped.")
    dropped_lately: dict[str, int] = Field(description="Deliveries dropped in the last minute, by reason.")
    away: list[AwayRow] = Field(description="Those for which most waits while they are away.")
    away_count: int = Field(description="Sessions for which something waits, and whose clients are away.")
    away_len: int = Field(description="Deliveries that wait for clients that are away.")
    slow_count: int = Field(description="Connected sessions with a backlog; `slow` has the longest.")
    slow: list[SlowRow]
    talkers: list[TalkerRow] = Field(description="Those with most messages, both ways together.")
    addresses: list[AddressRow] = Field(description="Those with most bytes.")
    groups: list[GroupRow] = Field(description="Those with the longest mqueue.")
    bridges: list[BridgeRow] = Field(description="The first ones of the configuration.")
