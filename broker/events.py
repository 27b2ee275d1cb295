"""Logs events of clients for operators, and counts them."""

from typing import Final, final

import structlog

from broker.log_limits import LIMITS
from broker.runtime.clock import SECOND
from broker.totals import Totals
from protocol import reason_codes
from protocol.errors import MQTTError
from protocol.replies import shortened
from session.session import Session

EPISODE: Final = 60 * SECOND
"""Microseconds: refusals that follow each other within this time are logged once."""
MOST_EPISODES: Final = 1_000
"""Episodes of a kind that are remembered, of users at a limit of their quotas for one; past that they begin anew."""


@final
class Events:
    """Logs events of clients. Lines have a bounded length, because they quote what clients send."""

    def __init__(self, totals: Totals, level: str) -> None:
        """`level`: the lowest of the log."""
        self.log = structlog.get_logger("sluice")
        self.debug = False
        """Whether subscriptions are logged."""
        self._info = False
        self.use(level)
        self._totals = totals
        self._quota_episodes: dict[tuple[str, str | None], int] = {}
        """When each ends, by limit and user."""
        self._take_overs: dict[str, tuple[int, int]] = {}
        """By client: when the next one is logged, and how many have not been since the last one."""

    def use(self, level: str) -> None:
        """Follow this lowest level from now on."""
        self.debug = level == "debug"
        self._info = level in ("debug", "info")

    def tells(self, event: str, listener: str, client_id: str) -> bool:
        """Whether a line of level info about a client is to be logged: a storm of connections has few lines."""
        return self._info and not LIMITS.leaves_out(event, listener, client_id)

    def report(self, event: str, client_id: str, detail: str = "") -> None:
        """Log an event of a client, and count it if $SYS has a total for it. Sessions report it once per episode."""
        self._totals.count_event(event)
        if detail:
            self.log.warning(event, client_id=shortened(client_id), detail=detail)
        else:
            self.log.warning(event, client_id=shortened(client_id))

    def publish_refused(self, session: Session, error: MQTTError, now: int) -> None:
        """Log a refused PUBLISH, unless the session's last refusal was less than EPISODE ago."""
        self._log("publish_refused", session, error, now)

    def subscribe_refused(self, session: Session, now: int) -> None:
        """Log a subscription for which the journal has no room (FC-29), as `publish_refused`."""
        error = MQTTError(reason_codes.QUOTA_EXCEEDED, "SUBSCRIBE while the journal, or its disk, is full")
        self._log("subscribe_refused", session, error, now)

    def will_dropped(self, session: Session, error: MQTTError) -> None:
        """Log a will that is not published, and why."""
        self._log_refusal("will_dropped", session, error)

    def _log(self, event: str, session: Session, error: MQTTError, now: int) -> None:
        if now >= session.refused_until:
            self._log_refusal(event, session, error)
        session.refused_until = now + EPISODE

    def _log_refusal(self, event: str, session: Session, error: MQTTError) -> None:
        self.log.info(
            event,
            client_id=shortened(session.client_id),
            listener=session.listener,
            reason=reason_codes.name(error.reason_code),
            detail=shortened(error.message),
        )

    def taken_over(self, client_id: str, listener: str, peer: str, by: str, now: int) -> None:
        """Log that a client has connected again, from `by`, while its connection from `peer` was open.

        Once in EPISODE for each client: two with the same id take over each other's connection again and again.
        """
        take_overs = self._take_overs
        until, left_out = take_overs.get(client_id, (0, 0))
        if now < until:
            take_overs[client_id] = (until, left_out + 1)
            return
        if len(take_overs) >= MOST_EPISODES:
            take_overs.clear()
        take_overs[client_id] = (now + EPISODE, 0)
        more = {"left_out": left_out} if left_out else {}
        self.log.info("taken_over", client_id=client_id, listener=listener, peer=peer, by=by, **more)

    def quota_reached(self, key: str, limit: int, user: str | None, client_id: str, now: int) -> None:
        """Count that a limit of a quota is reached (FC-31), and log it unless the user's last time was in EPISODE."""
        self._totals.count_quota(key)
        episodes = self._quota_episodes
        episode = (key, None if user is None else shortened(user))
        if now >= episodes.get(episode, 0):
            if len(episodes) >= MOST_EPISODES:
                episodes.clear()
            self.log.warning(
                "quota_reached",
                quota=key,
                limit=limit,
                user=None if user is None else shortened(user),
                client_id=shortened(client_id),
            )
        episodes[episode] = now + EPISODE
