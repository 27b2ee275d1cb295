"""Plugins: a package that is really installed decides in a broker, and wrong ones are refused with the reason."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.auth.authenticators.authenticator import Busy, Login, No, Unavailable
from broker.auth.permissions import Who
from broker.auth.plugins.authenticator import AuthenticatorPlugin
from broker.auth.plugins.authorizer import AuthorizerPlugin
from config.plugins import Plugin
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.exporting import until
from tests.support.broker.logins import NO_LIMITS, code, log_in
from tests.support.brokers import start_sluice
from tests.support.process import BrokerError, clean_environment
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

pytestmark = pytest.mark.once

EXAMPLE = Path(__file__).parents[3] / "support" / "example_plugin"

Install = Callable[..., None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, installed by pip into a folder of its own."""
    sources = tmp_path_factory.mktemp("sources") / "example"  # setuptools writes beside them
    shutil.copytree(EXAMPLE, sources, ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command += ["--target", str(target), str(sources)]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    if "bdist_wheel" in done.stderr or "No module named 'setuptools'" in done.stderr:
        pytest.skip("needs setuptools 70.1 or newer")
    assert done.returncode == 0, done.stderr
    return target


def with_path(folder: Path) -> dict[str, str]:
    """An environment in which this folder's packages are installed too."""
    before = clean_environment().get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([*([before] if before else []), str(folder)])}


def publish(client: WireClient, topic: bytes) -> int:
    """The reason code of PUBACK."""
    client.send(Publish(topic, b"", 1, packet_id=1))
    return client.expect(Puback).reason_code


@pytest.mark.timeout(300)
def test_example(start: Start, folder: Path, tmp_path: Path) -> None:
    """The example lets guests in with roles and limits, gives them rules, and both follow their files."""
    password, rooms = tmp_path / "password", tmp_path / "rooms"
    password.write_text("open sesame\n")
    rooms.write_text("guest-ann kitchen\n")
    denied = reason_codes.NOT_AUTHORIZED
    broker = start(
        sections={
            "allow_anonymous": None,
            "authentication": {
                "plugins": [{"name": "example", "settings": {"password_file": str(password), "roles": ["guest"]}}],
                **NO_LIMITS,
            },
            "authorization": {
                "rules": [{"permit": "allow", "topics": ["hall"], "roles": ["guest"]}],
                "plugins": [{"name": "example", "settings": {"rooms_file": str(rooms)}}],
            },
            "log": {"level": "debug", "format": "json"},
        },
        env=with_path(folder),
    )
    address = broker.address()
    for user, given in (("guest-ann", "wrong"), ("ann", "open sesame")):
        assert code(address, user, given) == reason_codes.BAD_USER_NAME_OR_PASSWORD
    with log_in(address, "guest-ann", "open sesame") as client:
        assert client.expect(Connack).reason_code == 0
        codes = [publish(client, topic) for topic in (b"hall", b"rooms/kitchen/x", b"rooms/cellar")]
        assert codes == [0x10, 0x10, denied]
        assert code(address, "guest-ann", "open sesame") == reason_codes.QUOTA_EXCEEDED
        rooms.write_text("guest-ann cellar\n")
        wait_until(lambda: publish(client, b"rooms/cellar") == 0x10, "the new rules count")
        assert publish(client, b"rooms/kitchen/x") == denied
        password.write_text("another\n")
        assert client.expect(Disconnect).reason_code == reason_codes.ADMINISTRATIVE_ACTION
    assert code(address, "guest-ann", "another") == 0
    assert "open sesame" not in broker.stderr


@pytest.mark.timeout(300)
def test_settings_that_the_plugin_refuses(folder: Path, tmp_path: Path) -> None:
    """The broker does not start, and says what the plugin has said."""
    own = {"authentication": {"plugins": [{"name": "example", "settings": {"word": "hunter2"}}]}}
    with pytest.raises(BrokerError, match="does not accept its settings: write password_file") as caught:
        start_sluice(tmp_path, sections=own, env=with_path(folder))
    assert "hunter2" not in str(caught.value)
    assert "sluice_example:PasswordOfTheDay of sluice-example 1.0" in str(caught.value)


# -- packages that are wrong


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a module of one test, with an entry point `mine` of both groups."""
    monkeypatch.syspath_prepend(tmp_path)

    def install_one(source: str, value: str = "Mine", package: str = "one") -> None:
        module = f"plugin_of_{tmp_path.name}_{package}".replace("-", "_")
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"[sluice.{each}]\nmine = {module}:{value}\n" for each in ("authentication", "authorization")]
        (info / "entry_points.txt").write_text("\n".join(lines))

    return install_one


def authenticator(**own: Any) -> AuthenticatorPlugin:
    """The authenticator `mine`."""
    return AuthenticatorPlugin(Plugin(name="mine", settings=own), lambda *_: None)


MADE = "class Mine:\n    def __init__(self, settings): pass\n"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import nothing_of_this_name", "cannot be imported: ModuleNotFoundError: No module named 'nothing_of"),
        ("raise RuntimeError('at import')", "cannot be imported: RuntimeError: at import"),
        ("Other = 1", "cannot be imported: AttributeError"),
        ("Mine = 1", "is a int: it must be a class or function with one argument, the settings"),
        ("class Mine: pass", "must be a class or function with one argument, the settings: too many positional"),
        ("def Mine(settings): raise ValueError('write more')", "does not accept its settings: write more"),
        ("def Mine(settings): raise KeyError(settings['word'])", "could not be created: KeyError at "),
        (MADE, "must make an object with `async def authenticate`, but Mine has none"),
        (MADE + "    def authenticate(self, login): pass", "but Mine has another kind of it"),
        (MADE + "    run = 1\n    async def authenticate(self, login): pass", "whose `run` is not `async def run`"),
    ],
)
def test_wrong_shape(install: Install, source: str, reason: str) -> None:
    """A plugin that cannot be imported, created or used is named, with the reason, and its settings are not quoted."""
    install(source)
    with pytest.raises(OSError, match=r"authentication\.plugins: 'mine' \(plugin_of_.* of one 1\.0\)") as caught:
        authenticator(word="hunter2")
    assert reason in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_names(install: Install) -> None:
    """An unknown name suggests one that is installed; a name of two packages is refused."""
    install(MADE)
    with pytest.raises(OSError, match=r"found 'mime'.*sluice\.authentication: did you mean 'mine'\?"):
        AuthenticatorPlugin(Plugin(name="mime"), lambda *_: None)
    install(MADE, package="two")
    with pytest.raises(OSError, match="'mine' is the name of several entry points"):
        authenticator()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("True", "`authenticate` has returned a bool"),
        ("None", "`authenticate` has returned a NoneType"),
        ("Identity('')", "without a user name"),
        ("Identity('ann', 'ops')", "roles are not names"),
        ("Identity('ann', [1])", "roles are not names"),
        ("Identity('ann\\n')", "without a user name of printable characters"),
        ("Identity('ann', ['ops\\0'])", "roles are not names"),
        ("Identity('ann', limits=(('users', 1),))", "limits are not keys"),
        ("Identity('ann', limits=(('max_inflight', True),))", "limits are not keys"),
        ("Identity('ann', expires_at='5')", "expires_at is no whole number"),
        ("1 / 0", "ZeroDivisionError at "),
        ("open('/hunter2')", "FileNotFoundError at "),
    ],
)
async def test_wrong_answers(install: Install, answer: str, reason: str) -> None:
    """What is no answer lets nobody in, and the log says once what it was, without the error's text."""
    head = "from broker.auth.plugins import Identity\n"
    install(f"{head}{MADE}    async def authenticate(self, login): return {answer}\n")
    with capture_logs() as logged:
        plugin = authenticator()
        for _ in range(2):
            with pytest.raises(Unavailable):
                await plugin.authenticate(Login("ann", b"x"))
    (event,) = logged
    assert reason in event["detail"]
    assert "/hunter2" not in event["detail"]


async def test_answers(install: Install) -> None:
    """Identities have the plugin as their source; No and Busy are passed on."""
    install(
        "from broker.auth.plugins import Busy, Identity, No\n"
        f"{MADE}    async def authenticate(self, login):\n"
        "        if login.username == 'busy': raise Busy('later')\n"
        "        if login.username == 'no': return No.DENIED\n"
        "        return Identity(login.username, ['ops'], 'password_file')\n"
    )
    plugin = authenticator()
    assert plugin.asked_about_nameless  # a plugin may know clients by their ids or certificates
    found = await plugin.authenticate(Login("ann", b"x"))
    assert found == ("ann", frozenset({"ops"}), "plugins.mine", 0, ())
    assert await plugin.authenticate(Login("no", b"x")) is No.DENIED
    with pytest.raises(Busy):
        await plugin.authenticate(Login("busy", b"x"))


def test_rules_that_fail(install: Install) -> None:
    """An authorizer that fails gives no rules, and the log says once so; when it is well again, too."""
    install(
        f"{MADE}    def rules(self, who):\n"
        "        return [{'permit': 'allow', 'topics': ['a/#']}] if who.user == 'ann' else [{'permit': 'perhaps'}]\n"
    )
    plugin = AuthorizerPlugin(Plugin(name="mine"))
    ann, ben = (Who(user, frozenset(), "x", "", "tcp") for user in ("ann", "ben"))
    with capture_logs() as logged:
        assert len(plugin.rules(ann) or []) == 1
        assert plugin.rules(ben) is plugin.rules(ben) is None
        assert len(plugin.rules(ann) or []) == 1
    assert [event["event"] for event in logged] == ["authorizer_failed", "authorizer_recovered"]


async def unexpected() -> None:
    """Nothing has changed."""
    pytest.fail("no rules have changed")


async def test_changes_after_run_has_returned(install: Install) -> None:
    """A plugin may tell of changes from elsewhere, after its `run` has returned."""
    install(
        "import asyncio\n"
        f"{MADE}    def rules(self, who): return []\n"
        "    async def run(self, changed): asyncio.get_running_loop().call_later(0.01, changed)\n"
    )
    renewed = asyncio.Event()

    async def renew() -> None:
        renewed.set()

    running = asyncio.create_task(AuthorizerPlugin(Plugin(name="mine")).run(renew))
    await asyncio.wait_for(renewed.wait(), 10)
    running.cancel()


async def test_renewal_that_fails(install: Install) -> None:
    """An error while rules are renewed is reported, and the next change is renewed all the same."""
    install(
        f"{MADE}    def rules(self, who): return []\n"
        "    async def run(self, changed): self.changed = changed; changed(); raise RuntimeError\n"
    )
    reported: asyncio.Queue[object] = asyncio.Queue()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.put_nowait(context["exception"]))
    plugin = AuthorizerPlugin(Plugin(name="mine"))
    errors = [ZeroDivisionError(), None]
    renewed = asyncio.Event()

    async def renew() -> None:
        error = errors.pop(0)
        if error is not None:
            raise error
        renewed.set()

    running = asyncio.create_task(plugin.run(renew))
    assert isinstance(await asyncio.wait_for(reported.get(), 10), ZeroDivisionError)
    plugin._inner.changed()
    await asyncio.wait_for(renewed.wait(), 10)
    running.cancel()


async def test_run_that_fails_after_a_change(install: Install) -> None:
    """A renewal that is under way is finished, although the plugin's `run` has failed."""
    install(
        f"{MADE}    def rules(self, who): return []\n"
        "    async def run(self, changed):\n"
        "        changed()\n"
        "        await self.begun.wait()\n"
        "        raise RuntimeError\n"
    )
    plugin = AuthorizerPlugin(Plugin(name="mine"))
    plugin._inner.begun = asyncio.Event()
    finished = asyncio.Event()

    async def renew() -> None:
        plugin._inner.begun.set()
        with capture_logs() as logged:
            await until(lambda: logged)  # `run` has failed
        finished.set()

    running = asyncio.create_task(plugin.run(renew))
    await asyncio.wait_for(finished.wait(), 10)
    running.cancel()


async def test_run_that_ends(install: Install) -> None:
    """What a plugin does beside the broker may fail: the log says where, and the broker goes on."""
    install(
        f"{MADE}    async def authenticate(self, login): pass\n"
        "    def rules(self, who): return []\n"
        "    async def run(self, tell): raise RuntimeError('hunter2')\n"
    )
    with capture_logs() as logged:
        await authenticator().run()
        running = asyncio.create_task(AuthorizerPlugin(Plugin(name="mine")).run(unexpected))
        await until(lambda: len(logged) == 2)
        running.cancel()
    assert [event["event"] for event in logged] == ["plugin_ended"] * 2
    assert "hunter2" not in str(logged)
