"""Users who are disconnected because they were removed or changed."""

from typing import Any

from broker.auth.identity import Identity
from tests.support.broker.local import LocalBroker, LocalClient

MANY = 1_500


def of_source(local: LocalBroker, client_id: str, user: str, source: str) -> LocalClient:
    """A client that this source has authenticated."""
    client = local.client()
    client.connect(client_id)
    local.broker.clients.by_id[client_id].identity = Identity(user, frozenset(), source)
    return client


def test_who_is_disconnected() -> None:
    """Only users with these names that the source has authenticated: another source may have the same name."""
    with LocalBroker() as local:
        ann = of_source(local, "1", "ann", "password_file")
        ben = of_source(local, "2", "ben", "password_file")
        other = of_source(local, "3", "ann", "token")
        local.run(lambda: local.broker.connections.close_users("password_file", {"ann", "zoe"}))
        assert [client.transport.closed for client in (ann, ben, other)] == [True, False, False]


def test_others_have_their_turns() -> None:
    """Many users are disconnected a few in each turn of the event loop, so that others are served meanwhile."""
    with LocalBroker() as local:
        clients = [of_source(local, str(number), "ann", "password_file") for number in range(MANY)]

        def closed() -> int:
            return sum(client.transport.closed for client in clients)

        local.run(lambda: local.broker.connections.close_users("password_file", {"ann"}))
        assert 0 < closed() < MANY
        turns = 0
        while closed() < MANY and turns < MANY:
            local.run(lambda: None)
            turns += 1
        assert closed() == MANY


def test_one_that_fails_does_not_spare_others() -> None:
    """A connection that cannot be closed in order is aborted, the error is reported, and the others are closed."""

    def fail(_: Any) -> None:
        raise RuntimeError("no")

    with LocalBroker() as local:
        clients = [of_source(local, str(number), "ann", "password_file") for number in range(3)]
        for client in clients[:2]:
            setattr(client.transport, "write", fail)  # noqa: B010 - mypy would refuse the assignment
        local.run(lambda: local.broker.connections.close_users("password_file", {"ann"}))
        assert all(client.transport.closed for client in clients)
        assert [str(crash["exception"]) for crash in local.crashes] == ["no", "no"]
        local.crashes.clear()
