"""SCRAM-SHA-256 by itself: only a client that knows the password is accepted."""

from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import cache, partial

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scramp import ScramClient, ScramException, ScramMechanism

from broker.auth.method import Answer
from broker.auth.scram import MESSAGE_BYTES, NAME, Scram
from config import ScramUser
from protocol import reason_codes
from protocol.errors import MQTTError

pytestmark = pytest.mark.once


@cache
def user(name: str, password: str = "pencil", iterations: int = 4096, salt: bytes = b"s" * 16) -> ScramUser:
    """A user's entry."""
    _, stored_key, server_key, _ = ScramMechanism(NAME).make_auth_info(password, iterations, salt)
    return ScramUser.model_validate(
        {
            "username": name,
            "salt": b64encode(salt).decode(),
            "iterations": iterations,
            "stored_key": b64encode(stored_key).decode(),
            "server_key": b64encode(server_key).decode(),
        }
    )


SECRET = b"d" * 32
SCRAM = Scram([user("ann"), user("ben", iterations=5000, salt=b"t" * 12)], SECRET)


def challenge(method: Scram, name: str) -> tuple[bytes, int]:
    """The salt and the iterations that a client is told who gives this name."""
    client = ScramClient([NAME], name, "any")
    answer = method.begin().step(client.get_client_first().encode())
    assert answer.user is None
    client.set_server_first(answer.data.decode())
    return bytes(client.salt), int(client.iterations)


def unchanged(message: bytes) -> bytes:
    """What came is handed on."""
    return message


def cut(count: int, message: bytes) -> bytes:
    """All but the last bytes is handed on, if there are as many."""
    return message[:-count]


def last_step(method: Scram, name: str, password: str, change: Callable[[bytes], bytes] = unchanged) -> Answer:
    """A whole exchange, the client's last message changed on the way."""
    client, exchange = ScramClient([NAME], name, password), method.begin()
    client.set_server_first(exchange.step(client.get_client_first().encode()).data.decode())
    answer = exchange.step(change(client.get_client_final().encode()))
    client.set_server_final(answer.data.decode())
    return answer


WORDS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x220, exclude_categories=["Cc"]), min_size=1)


@given(WORDS, WORDS)
def test_whoever_knows_the_password_gets_in(name: str, password: str) -> None:
    """Any name and password that SCRAM allows is accepted, and the client can verify the broker's answer."""
    try:
        name = str(ScramClient([NAME], name, password).username)
        entry = user(name, password)
    except (ScramException, ValueError):
        assume(False)
    assert last_step(Scram([entry], SECRET), name, password).user == name


def meaning(final: bytes) -> tuple[bytes, bytes]:
    """What a last message says; base64 can write the same proof in four ways, by the two bits that its end leaves."""
    head, _, proof = final.partition(b",p=")
    try:
        return head, b64decode(proof, validate=True)
    except ValueError:
        return head, proof


@given(st.integers(min_value=0, max_value=1000), st.binary(min_size=1, max_size=10))
def test_no_changed_proof_gets_in(at: int, text: bytes) -> None:
    """Any change to the last message is refused, always in the same way."""

    def change(final: bytes) -> bytes:
        start = at % len(final)
        changed = final[:start] + text + final[start + len(text) :]
        assume(meaning(changed) != meaning(final))
        return changed

    with pytest.raises(MQTTError) as caught:
        last_step(SCRAM, "ann", "pencil", change)
    assert caught.value.reason_code == reason_codes.NOT_AUTHORIZED


GRAMMAR = st.lists(
    st.sampled_from([b"n", b"y", b"p=tls-unique", b",", b"a=", b"n=ann", b"r=x", b"m=", b"c=biws", b"p=", b"=", b"\0"]),
    max_size=12,
).map(b"".join)


@given(st.lists(st.one_of(GRAMMAR, st.binary(max_size=60)), max_size=3))
def test_nonsense_is_refused(messages: list[bytes]) -> None:
    """Random input ends in 0x87 or in a challenge, never in another error."""
    exchange = SCRAM.begin()
    for message in messages:
        try:
            answer = exchange.step(message)
        except MQTTError:
            break
        assert answer.user is None
        assert answer.data.startswith(b"r=")


def test_every_truncation_is_refused() -> None:
    """Both messages are refused when they are truncated at any byte."""
    client = ScramClient([NAME], "ann", "pencil")
    first = client.get_client_first().encode()
    nonce = first.index(b",r=") + 4
    for length in range(nonce):  # the nonce may be of any length
        with pytest.raises(MQTTError):
            SCRAM.begin().step(first[:length])
    for left_out in range(1, 300):
        with pytest.raises(MQTTError):
            last_step(SCRAM, "ann", "pencil", partial(cut, left_out))


def test_long_messages_are_not_looked_at() -> None:
    """A message of the greatest length is accepted, a longer one refused at once; the longest user name fits."""
    name = "=" * 255
    client = ScramClient([NAME], name, "x", c_nonce="r" * 512)
    assert SCRAM.begin().step(client.get_client_first().encode()).data
    first = b"n,,n=ann,r="
    assert SCRAM.begin().step(first + b"r" * (MESSAGE_BYTES - len(first))).data
    with pytest.raises(MQTTError, match=f"a message of {MESSAGE_BYTES + 1} bytes"):
        SCRAM.begin().step(first + b"r" * (MESSAGE_BYTES - len(first) + 1))


def test_stand_ins() -> None:
    """An unknown name gets a plausible salt and iteration count, the same each time, and others with another secret."""
    shapes = {(12, 5000), (16, 4096)}
    found = set()
    for number in range(30):
        name = f"nobody{number}"
        salt, iterations = challenge(SCRAM, name)
        found.add((len(salt), iterations))
        assert challenge(SCRAM, name) == (salt, iterations)
        assert challenge(Scram([user("ann")], SECRET), name)[0] != challenge(Scram([user("ann")], b"e" * 32), name)[0]
        assert salt != challenge(SCRAM, name + "x")[0]
    assert found == shapes
    assert challenge(SCRAM, "ann") == (b"s" * 16, 4096)
    assert challenge(SCRAM, "ben") == (b"t" * 12, 5000)


def test_decoys_stay_when_users_come_and_go() -> None:
    """Real salts stay over such a change, so those of unknown names do too; else they would tell which is which."""
    many = [user(f"user{number}", salt=bytes([number]) * 16) for number in range(20)]
    names = [f"nobody{number}" for number in range(200)]
    before = Scram(many, SECRET)
    for users in (many[1:], [*many, user("ann")]):
        assert [challenge(Scram(users, SECRET), name) for name in names] == [challenge(before, name) for name in names]
    with_another_shape = Scram([*many, user("ben", iterations=5000)], SECRET)
    changed = [name for name in names if challenge(with_another_shape, name) != challenge(before, name)]
    assert len(changed) < 30  # a twenty-first of them is expected
    assert {challenge(with_another_shape, name)[1] for name in changed} == {5000}


def test_a_decoy_lets_no_client_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A valid proof for a decoy is refused: here the decoy is a known user's entry."""
    entry = SCRAM.entry("ann")
    monkeypatch.setattr(SCRAM, "_decoy", lambda _: entry)
    assert last_step(SCRAM, "ann", "pencil").user == "ann"
    with pytest.raises(MQTTError):
        last_step(SCRAM, "nobody", "pencil")


def test_refusals_of_known_and_unknown_users_are_the_same() -> None:
    """A wrong password and an unknown name are refused with the same words."""
    said = []
    for name in ("ann", "abe"):
        with pytest.raises(MQTTError) as caught:
            last_step(SCRAM, name, "wrong")
        said.append((caught.value.reason_code, caught.value.message.replace(name, "?")))
    assert said[0] == said[1]


@pytest.mark.parametrize("after", [[], [user("ben")], [user("ann", "other")]], ids=["all", "one", "changed"])
def test_users_who_are_removed_or_changed_meanwhile(after: list[ScramUser]) -> None:
    """An exchange fails that had begun before its user was removed or got another password."""
    method = Scram([user("ann"), user("ben")], SECRET)
    client, exchange = ScramClient([NAME], "ann", "pencil"), method.begin()
    client.set_server_first(exchange.step(client.get_client_first().encode()).data.decode())
    method.use(after)
    with pytest.raises(MQTTError):
        exchange.step(client.get_client_final().encode())


def test_other_users_are_changed_meanwhile() -> None:
    """An exchange that has begun goes on if its user stays as it was."""
    method = Scram([user("ann"), user("ben")], SECRET)
    client, exchange = ScramClient([NAME], "ann", "pencil"), method.begin()
    client.set_server_first(exchange.step(client.get_client_first().encode()).data.decode())
    method.use([user("ann")])
    assert exchange.step(client.get_client_final().encode()).user == "ann"


def test_messages_after_the_end_are_refused() -> None:
    """An exchange that has ended refuses further messages."""
    client, exchange = ScramClient([NAME], "ann", "pencil"), SCRAM.begin()
    client.set_server_first(exchange.step(client.get_client_first().encode()).data.decode())
    final = client.get_client_final().encode()
    assert exchange.step(final).user == "ann"
    with pytest.raises(MQTTError):
        exchange.step(final)
