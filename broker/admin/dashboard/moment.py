"""What the dashboard shows of the broker at one moment: the schema of the stream."""

from pydantic import BaseModel, Field

from broker.admin.rows import AddressRow, GroupRow


class Rates(BaseModel):
    """What has happened since the moment before, per second."""

    received: float = Field(description="PUBLISHes from clients.")
    sent: float = Field(description="PUBLISHes to clients, with resent ones.")
    acknowledged: float = Field(description="Deliveries that clients have acknowledged.")
    bytes_received: float
    bytes_sent: float
    gated: dict[str, float] = Field(description="QoS 0 that the gate has queued, by reason (FC-3).")
    dropped: dict[str, float] = Field(description="Deliveries given up, by reason (FC-5).")


class SlowRow(BaseModel):
    """A connected session with a backlog, and what holds it back."""

    client_id: str
    waits_for: str
    because: str = Field(description="The reason, in the words of the report.")
    advice: str = Field(description="Why it waits, and which key of the configuration changes it.")
    for_us: int = Field(description="For how long there has been a backlog, as far as somebody has looked.")
    mqueue_len: int
    mqueue_bytes: int
    max_mqueue_len: int = Field(description="0 = no limit.")
    window_len: int
    window_limit: int
    sent: float = Field(description="Deliveries sent to it, per second.")
    dropped: int = Field(description="Since the session began.")
    paced: bool = Field(description="Whether publishers are paced for it (FC-16).")


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
    slow_count: int = Field(description="Connected sessions with a backlog; `slow` has the longest.")
    slow: list[SlowRow]
    talkers: list[TalkerRow] = Field(description="Those with most messages, both ways together.")
    addresses: list[AddressRow] = Field(description="Those with most bytes.")
    groups: list[GroupRow] = Field(description="Those with the longest mqueue.")
