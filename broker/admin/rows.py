"""The rows of the lists of the admin API: its schema."""

from typing import Final

from pydantic import BaseModel, Field

LONGEST_PAYLOAD: Final = 256
"""Bytes of a payload that a list has."""


class ClientRow(BaseModel):
    """One connected client."""

    client_id: str
    user: str | None = Field(description="Whom it has authenticated as; null = not by a user name.")
    roles: list[str]
    peer: str = Field(description="Its address and port.")
    listener: str
    protocol_version: int = Field(description="4 is MQTT 3.1.1, 5 is MQTT 5.")
    expiry_interval: int = Field(description="Seconds until its session ends after the connection; 4294967295 = never.")
    will: bool = Field(description="Whether it has a will.")
    subscriptions: int
    bridge: bool


class SessionRow(BaseModel):
    """One session. Lengths are in deliveries; the counts and times are totals since the session began."""

    client_id: str
    listener: str = Field(description="Of its last connection.")
    protocol_version: int = Field(description="4 is MQTT 3.1.1, 5 is MQTT 5.")
    connected: bool
    waits_for: str = Field(description="What has to happen before its next delivery is sent.")
    congested: bool = Field(description="Whether its send path is above the high-water mark.")
    mailbox_len: int
    mqueue_len: int
    mqueue_bytes: int = Field(description="Payload bytes in the mqueue.")
    window_len: int
    window_limit: int
    window_full_us: int
    offered: int
    sent: int
    acknowledged: int
    dropped: int
    started_us: int = Field(description="When it began, on the clock of clock_us.")
    paced_for_us: int = Field(description="For how long publishers were paced for it (FC-16).")
    received: int = Field(description="PUBLISHes from the client.")
    received_bytes: int = Field(description="Payload bytes of these.")


class SubscriptionRow(BaseModel):
    """One subscription."""

    client_id: str
    topic_filter: str
    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    shared: bool


class GroupRow(BaseModel):
    """One group. The counts are totals since the group began."""

    group: str
    members: int
    mqueue_len: int
    mqueue_bytes: int = Field(description="Payload bytes in the mqueue.")
    offered: int
    sent: int = Field(description="What members have pulled.")
    dropped: int
    paced_for_us: int = Field(description="For how long publishers were paced for it (FC-16).")


class AddressRow(BaseModel):
    """One address. The counts are of PUBLISHes since the address was created."""

    address: str
    full_policy: str
    size_bytes: int = Field(description="Payload, topic, properties and 700 bytes of each delivery, in all sessions.")
    max_size_bytes: int
    waiting: int = Field(description="PUBLISHes that wait for room: parked, or paged.")
    parked: int
    paged: int
    refused: int
    dropped: int


class RetainedRow(BaseModel):
    """One retained message."""

    topic: str
    qos: int
    size_bytes: int = Field(description="Of the payload.")
    payload: str = Field(description=f"Its first {LONGEST_PAYLOAD} bytes, in base64.")
    publisher: str = Field(description="Client id; empty = the broker itself, or not known.")


class BridgeRow(BaseModel):
    """One bridge. `sent`, `acknowledged`, `received` and `dropped` are totals since its session began."""

    bridge: str
    remote: str | None = Field(description="The address of its connection, or of the last attempt; null = none yet.")
    protocol_version: int = Field(description="4 is MQTT 3.1.1, 5 is MQTT 5.")
    state: str = Field(description="starting, connecting, connected, waiting (until the next attempt), idle or ended.")
    state_seconds: float = Field(description="For how long it has been in this state.")
    next_attempt_seconds: float | None = Field(description="Until the next attempt; null = it does not wait for one.")
    failure: str | None = Field(description="Why it is not connected; null = it is, or nothing has failed.")
    connects: int = Field(description="Connections that the remote broker has accepted.")
    failures: int = Field(description="Attempts and connections that have failed since it was connected.")
    queue: int = Field(description="Deliveries that wait, those in the window not counted.")
    queue_bytes: int = Field(description="Payload bytes in the mqueue.")
    oldest_seconds: float = Field(
        description="For how long the first delivery of the queue has waited, at most since the broker has started; "
        "0 = none waits."
    )
    inflight: int = Field(description="Deliveries that are sent and not acknowledged.")
    window: int = Field(description="How many may be, by its last connection.")
    sent: int
    acknowledged: int
    received: int = Field(description="PUBLISHes from the remote broker.")
    dropped: int
    refused_out: int = Field(
        description="Deliveries that the remote broker has refused for good: they are lost for it."
    )
    refused_in: int = Field(description="PUBLISHes of the remote broker that were not let in.")
    loops: int = Field(description="PUBLISHes of the remote broker that had been here before.")
    filters_refused: list[str] = Field(description="Filters that the remote broker does not let it subscribe to.")
