"""aiomqtt: asyncio, on top of paho-mqtt."""

import asyncio
import ssl

import aiomqtt

from tests.clients.exchange import KEPT, TIMEOUT, Outcome, Plan, Received


def run(plan: Plan) -> Outcome:
    """Carry out the exchange."""
    return asyncio.run(_exchange(plan))


async def _exchange(plan: Plan) -> Outcome:
    async with _client(plan) as subscriber, _client(plan) as publisher, _client(plan) as late:
        await subscriber.subscribe(plan.topic_filter, plan.qos)
        for topic, payload in plan.messages():
            await publisher.publish(topic, payload, plan.qos)
        await publisher.publish(plan.kept_topic, KEPT, plan.qos, retain=True)
        live = await _receive(subscriber, len(plan.messages()) + 1)
        await late.subscribe(plan.topic_filter, plan.qos)
        retained = await _receive(late, 1)
        await publisher.publish(plan.kept_topic, b"", plan.qos, retain=True)
        return Outcome(live, retained)


def _client(plan: Plan) -> aiomqtt.Client:
    version = aiomqtt.ProtocolVersion.V5 if plan.version == 5 else aiomqtt.ProtocolVersion.V311
    return aiomqtt.Client(*plan.address, protocol=version, tls_context=context(plan), timeout=TIMEOUT)


async def _receive(client: aiomqtt.Client, count: int) -> list[Received]:
    received: list[Received] = []
    async with asyncio.timeout(TIMEOUT):
        async for message in client.messages:
            assert isinstance(message.payload, bytes)
            received.append(Received(str(message.topic), message.payload, message.qos, message.retain))
            if len(received) == count:
                break
    return received


def context(plan: Plan) -> ssl.SSLContext | None:
    """Return the TLS context of the plan, None for plain TCP."""
    if plan.tls is None:
        return None
    made = ssl.create_default_context(cafile=plan.tls.cafile)
    if plan.tls.certificate:
        made.load_cert_chain(plan.tls.certificate.certfile, plan.tls.certificate.keyfile)
    return made
