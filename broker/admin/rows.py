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
