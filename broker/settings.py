"""The configuration in the form that the broker and its sessions use."""

from math import ceil
from typing import Any, Final, final

from broker.clients import NEVER_EXPIRES
from broker.runtime.clock import SECOND
from config.address_settings import AddressSettings
from config.cluster import CELL
from config.models import Config
from config.session import Session as SessionSettings
from session.address import AddressRule
from session.conflation import Conflation
from session.flows import FIFO, PUBLISHER, USER
from session.limits import NEVER, Limits
from session.priorities import Priorities

_FAIRNESS: Final = {"fifo": FIFO, "publisher": PUBLISHER, "user": USER}


@final
class Settings:
    """The settings, from a valid configuration. Times are microseconds (0 = never) unless documented otherwise."""

    def __init__(self, config: Config, gate: bool) -> None:
        mqtt = config.mqtt
        self.limits: Final = session_limits(config, gate)
        """Of groups, and of sessions whose listeners have none of their own."""
        self.profiles: dict[str, Limits] = {}
        """FC-39: of sessions whose listeners have some of their own, by the names of these."""
        self._use_profiles(config)
        self.max_packet_size: int = mqtt.max_packet_size
        """For new connections."""
        self.max_topic_levels: Final[int] = mqtt.max_topic_levels
        self.max_clientid_len: int = mqtt.max_clientid_len
        self.mqtt31: bool = mqtt.mqtt31
        """Whether MQTT 3.1 is accepted."""
        self.max_connections: int = mqtt.max_connections
        self.max_connection_rate: int = mqtt.max_connection_rate or 0
        """CONNECTs a second from one peer address; 0 = no limit."""
        self.connect_timeout: int = microseconds(mqtt.connect_timeout)
        self.keepalive_multiplier: float = mqtt.keepalive_multiplier
        self.session_expiry_interval: int = whole_seconds(mqtt.session_expiry_interval)
        """Seconds until a 3.1.1 session ends after its connection."""
        self.max_session_expiry_interval: int = whole_seconds(mqtt.max_session_expiry_interval)
        """Seconds."""

    def use(self, config: Config) -> None:
        """The configuration has changed, in nothing that needs a restart."""
        mqtt = config.mqtt
        _set(self.limits, config, config.session)
        self._use_profiles(config)
        self.max_packet_size = mqtt.max_packet_size
        self.max_clientid_len = mqtt.max_clientid_len
        self.mqtt31 = mqtt.mqtt31
        self.max_connections = mqtt.max_connections
        self.max_connection_rate = mqtt.max_connection_rate or 0
        self.connect_timeout = microseconds(mqtt.connect_timeout)
        self.keepalive_multiplier = mqtt.keepalive_multiplier
        self.session_expiry_interval = whole_seconds(mqtt.session_expiry_interval)
        self.max_session_expiry_interval = whole_seconds(mqtt.max_session_expiry_interval)

    @property
    def backpressure(self) -> bool:
        """FC-34: whether any queue tells publishers that it is full; `CellLinks` says whether one of a link does."""
        return any(each.backpressure and not each.of_cell for each in (self.limits, *self.profiles.values()))

    def _use_profiles(self, config: Config) -> None:
        """Sessions that have such limits already have them with their new values."""
        before = self.profiles
        self.profiles = {}
        for name, session in config.profiles.items():
            self.profiles[name] = limits = before.get(name) or Limits(gate=self.limits.gate)
            limits.of_cell = name.startswith(CELL)
            _set(limits, config, session)


def microseconds(seconds: float) -> int:
    """A configured duration in microseconds; NEVER stands for `infinity`."""
    return NEVER if seconds == float("inf") else int(seconds * SECOND)


def whole_seconds(seconds: float) -> int:
    """A configured duration as a Session Expiry Interval."""
    return min(ceil(seconds), NEVER_EXPIRES) if seconds != float("inf") else NEVER_EXPIRES


def session_limits(config: Config, gate: bool, session: SessionSettings | None = None) -> Limits:
    """The configuration of flow control, in the form that sessions use. `session`: in place of its section."""
    return Limits(**_limits(config, config.session if session is None else session), gate=gate)


def _set(limits: Limits, config: Config, session: SessionSettings) -> None:
    for name, value in _limits(config, session).items():
        setattr(limits, name, value)
    limits.use_overflow(session.mqueue_overflow)


def _limits(config: Config, own: SessionSettings) -> dict[str, Any]:
    """The same by name."""
    slow = own.slow_consumer
    weights = [(priority.match, priority.weight) for priority in own.mqueue_priorities]
    return {
        "max_inflight": own.max_inflight,
        "max_mqueue_len": own.max_mqueue_len,
        "max_mqueue_bytes": own.max_mqueue_bytes,
        "mqueue_overflow": own.mqueue_overflow,
        "mqueue_store_qos0": own.mqueue_store_qos0,
        "retry_interval": microseconds(own.retry_interval),
        "receive_maximum": own.receive_maximum,
        "tolerate_receive_maximum": own.receive_maximum_policy == "tolerate",
        "max_awaiting_rel": own.max_awaiting_rel,
        "producer_window_size": own.producer_window_size,
        "await_rel_timeout": microseconds(own.await_rel_timeout),
        "max_topic_alias_out": config.mqtt.max_topic_alias_out,
        "consumer_window_size": own.consumer_window_size,
        "consumer_max_rate": own.consumer_max_rate,
        "max_mqueue_age": microseconds(own.max_mqueue_age),
        "fairness": _FAIRNESS[own.mqueue_fairness],
        "group_keys": own.group_order == "key",
        "conflation": Conflation(own.conflate) if own.conflate else None,
        "priorities": Priorities(weights) if weights else None,
        "slow_threshold": _slow_threshold(own),
        "slow_check_period": microseconds(slow.check_period),
        "slow_disconnect": slow.policy == "disconnect",
        "stalled_window": microseconds(own.stalled_window),
        "overflow_patience": microseconds(own.overflow_patience),
        "overflow_timeout": microseconds(own.overflow_timeout),
        "overflow_offline_grace": microseconds(own.overflow_offline_grace),
        "producer_max_rate": own.producer_max_rate,
        "byte_windows": any(each.consumer_window_size > 0 for each in (own, *config.profiles.values())),
    }


def address_rule(own: AddressSettings) -> AddressRule:
    """The configuration of the addresses that match one filter."""
    return AddressRule(
        max_size_bytes=own.max_size_bytes,
        full_policy=own.full_policy,
        reject_threshold_bytes=own.reject_threshold_bytes,
        block_timeout=microseconds(own.block_timeout),
        page_limit_bytes=own.page_limit_bytes or -1,
        page_full_policy=own.page_full_policy,
    )


def _slow_threshold(own: SessionSettings) -> float:
    """FC-14: messages a second; at most half of `consumer_max_rate`, since a rate limit (FC-11) is not slowness.

    Half, because its bucket holds a fifth of a second: a client that is late twice in a short period gets no more.
    """
    threshold = own.slow_consumer.threshold or 0.0
    return min(threshold, own.consumer_max_rate / 2) if own.consumer_max_rate else threshold
