"""The actions of operators on clients, sessions, addresses, bridges and retained messages; and they may publish."""

import binascii
from base64 import b64decode
from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field

from broker.admin.api.audit import Audit, operator_audit
from broker.admin.api.problem import refusals
from broker.admin.api.who import Finder
from broker.admin.managed import Managed
from broker.clients import Client
from broker.routing.router import MATCHED
from broker.runtime.clock import monotonic_us
from broker.telemetry.slices import STEP, Slices
from protocol import reason_codes
from protocol.errors import MQTTError
from protocol.publish import Publish
from protocol.topics import matches, validate_topic_filter, validate_topic_name

BY_OPERATOR = "an operator has disconnected the client"
AGAIN = "an operator has the bridge connect again"


class Done(BaseModel):
    """What an action has done."""

    result: str


class Count(BaseModel):
    """How many items an action is about."""

    count: int


class Drain(BaseModel):
    """Which address to drain."""

    model_config = ConfigDict(extra="forbid", strict=True)

    address: str = Field(min_length=1, max_length=65_535, description="The topic.")


class NewMessage(BaseModel):
    """A message to publish."""

    model_config = ConfigDict(extra="forbid", strict=True)

    topic: str = Field(min_length=1, max_length=65_535)
    payload: str = ""
    encoding: Literal["text", "base64"] = "text"
    qos: int = Field(0, ge=0, le=2)
    retain: bool = False


class Published(BaseModel):
    """Whether a message had subscribers."""

    matched: bool


async def _named(
    client_id: str,
    of_query: Annotated[str, Query(alias="id", description="The client id, if the path ends before it.")] = "",
) -> str:
    """The client id, whatever it is: a browser takes `.` and `..` in a path for steps, also as %2e."""
    return client_id or of_query


Named = Annotated[str, Depends(_named)]


def actions_router(managed: Managed, find: Finder, changed: Callable[[], None]) -> APIRouter:
    """The endpoints of clients, sessions, addresses and bridges; `changed` is called after each action."""
    router = APIRouter(tags=["actions"])
    broker = managed.broker
    Log = Annotated[Audit, Depends(operator_audit(find))]  # noqa: N806 - a type, whose dependency is known only here

    @router.delete("/clients/{client_id:any}", responses=refusals(404))
    async def disconnect(client_id: Named, audit: Log) -> Done:
        """Disconnect a client, in MQTT 5 with 0x98; its session lasts as long as it would without this."""
        client = broker.clients.get(client_id)
        if client is None or client.connection is None:
            raise audit.missing("disconnect", client_id, "connected client")
        client.connection.close(reason_codes.ADMINISTRATIVE_ACTION, BY_OPERATOR)
        audit.done("disconnect", client_id, "disconnected")
        changed()
        return Done(result="disconnected")

    @router.delete("/sessions/{client_id:any}", responses=refusals(404))
    async def end_session(client_id: Named, audit: Log) -> Done:
        """End a session with its subscriptions and what waits in it, and disconnect its client; bridges begin anew."""
        client = broker.clients.get(client_id)
        if client is None:
            raise audit.missing("end_session", client_id, "session")
        _end(managed, client)
        audit.done("end_session", client_id, "ended")
        changed()
        return Done(result="ended")

    @router.post("/addresses/drain", responses=refusals(404))
    async def drain(wanted: Drain, audit: Log) -> Count:
        """Deliver all that waits for room in an address, although its limit is then exceeded; returns how many."""
        topic = wanted.address.encode()
        if broker.router.addresses.get(topic) is None:
            raise audit.missing("drain", wanted.address, "address")
        count = broker.addresses.drain(topic)
        audit.done("drain", wanted.address, f"{count} to be delivered")
        changed()
        return Count(count=count)

    @router.post("/bridges/{name}/reconnect", responses=refusals(404))
    async def reconnect(name: str, audit: Log) -> Done:
        """Disconnect a bridge, and connect at once to its first address; without clean_start what waits stays."""
        bridge = managed.bridges.all.get(name)
        if bridge is None:
            raise audit.missing("reconnect", name, "bridge")
        now = monotonic_us()
        if bridge.connection is not None:
            bridge.connection.close(reason=AGAIN)
        bridge.use(bridge.settings, now)
        bridge.connect(now)  # else one with `start: lazy` waits until there is something to send
        audit.done("reconnect", name, "connecting")
        changed()
        return Done(result="connecting")

    return router


def messages_router(managed: Managed, find: Finder, changed: Callable[[], None]) -> APIRouter:
    """The endpoints of messages: clear retained ones, publish; `changed` is called after each."""
    router = APIRouter(tags=["actions"])
    broker = managed.broker
    Log = Annotated[Audit, Depends(operator_audit(find))]  # noqa: N806 - a type, whose dependency is known only here

    @router.delete("/retained")
    async def clear_retained(
        topic_filter: Annotated[str, Query(min_length=1, max_length=65_535)], audit: Log
    ) -> Count:
        """Remove the retained messages whose topics match a filter, and return how many; those under $SYS stay."""
        with audit.noted("clear_retained", topic_filter):
            _check(lambda: validate_topic_filter(topic_filter))
            _not_the_brokers("topic_filter", topic_filter)
        count = await _clear(managed, topic_filter)
        audit.done("clear_retained", topic_filter, f"{count} removed")
        changed()
        return Count(count=count)

    @router.post("/publish", responses=refusals(503))
    async def publish(message: NewMessage, audit: Log) -> Published:
        """Publish a message, as the broker itself: without rules, and also to a full address."""
        with audit.noted("publish", message.topic):
            made = _made(managed, message)
        matched = broker.messages.publish_own(made, monotonic_us()) == MATCHED
        audit.done("publish", message.topic, "matched" if matched else "nobody is subscribed")
        changed()
        return Published(matched=matched)

    return router


def _end(managed: Managed, client: Client) -> None:
    """End a session; a bridge begins another one, so that it goes on to keep what is to go out."""
    broker, now = managed.broker, monotonic_us()
    if client.connection is not None:
        client.connection.close(reason_codes.ADMINISTRATIVE_ACTION, BY_OPERATOR)
    if broker.clients.knows(client):
        broker.sessions.end(client, now)
    for bridge in managed.bridges.all.values():
        if bridge.session.client is client:
            bridge.use(bridge.settings, now)


def _made(managed: Managed, message: NewMessage) -> Publish:
    """The PUBLISH of a message. Raises HTTPException if it is not a valid one, or cannot be kept."""
    broker = managed.broker
    topic = _encoded("topic", message.topic)
    _check(lambda: validate_topic_name(topic))
    _not_the_brokers("topic", message.topic)
    if topic.count(b"/") >= broker.settings.max_topic_levels:
        raise HTTPException(422, f"topic: more than mqtt.max_topic_levels, {broker.settings.max_topic_levels}")
    payload = _encoded("payload", message.payload)
    if message.encoding == "base64":
        try:
            payload = b64decode(payload, validate=True)
        except binascii.Error:
            raise HTTPException(422, "payload: this is not base64") from None
    commits = broker.commits
    if commits is not None and (message.qos or message.retain) and not commits.has_room():
        raise HTTPException(503, "the journal, or its disk, is full")
    return Publish(topic, payload, message.qos, message.retain)


def _encoded(field: str, text: str) -> bytes:
    r"""A text of JSON as UTF-8. Raises HTTPException for half of a surrogate pair, as in "\ud800"."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise HTTPException(422, f"{field}: this is not Unicode text: half of a surrogate pair is in it") from None


def _not_the_brokers(field: str, topic: str) -> None:
    """Refuse a topic or filter under $SYS: what does not change there would not be published again."""
    if topic.partition("/")[0] == "$SYS":
        raise HTTPException(422, f"{field}: the broker alone publishes under $SYS")


def _check(validate: Callable[[], None]) -> None:
    """Turn an error of the protocol into an answer."""
    try:
        validate()
    except (MQTTError, UnicodeError) as error:
        raise HTTPException(422, str(error)) from None


async def _clear(managed: Managed, topic_filter: str) -> int:
    """Remove what matches, in slices. A wildcard at the first level does not match topics that begin with $."""
    retained = managed.broker.retained
    slices = Slices()
    count = 0
    for number, message in enumerate(retained.each(), 1):
        topic = message.topic.decode()
        hidden = topic.startswith("$") and topic_filter[0] in "+#"
        if not hidden and matches(topic_filter, topic) and message.current:
            retained.remove(message.topic)
            count += 1
        if number % STEP == 0:
            await slices.breathe()
    return count
