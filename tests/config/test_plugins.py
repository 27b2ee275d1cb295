"""Plugins in the configuration: those that are not installed, and settings that may be secret."""

from pathlib import Path

import pytest

import config
from config import plugins
from config.render import render, settings

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"authentication": ["ldap", "radius"], "authorization": []}
    monkeypatch.setattr(plugins, "installed", lambda section: names[section])


def check(path: Path, text: str) -> list[str]:
    """The mistakes of a file."""
    path.write_text(text)
    return [str(problem).partition(": ")[2] for problem in config.check(path)]


def test_not_installed(tmp_path: Path) -> None:
    """A plugin that is not installed is a mistake at its name, which suggests one that is."""
    text = "authentication: {plugins: [{name: ldap}, {name: radios}]}\nauthorization: {plugins: [{name: opa}]}\n"
    first, second = check(tmp_path / "sluice.yaml", text)
    assert "authentication.plugins[1].name" in first
    assert "sluice.authentication: did you mean 'radius'?" in first
    assert "authorization.plugins[0].name" in second
    assert "sluice.authorization: installed are none" in second


def test_settings_are_hidden(tmp_path: Path) -> None:
    """Nobody but the plugin knows what of its settings is secret: none of them is shown, whether right or wrong."""
    path = tmp_path / "sluice.yaml"
    own = "{name: ldap, settings: {bind: {password: hunter2}}}"
    assert check(path, f"authentication: {{plugins: [{own}, {{name: radius}}]}}") == []
    loaded = config.load(path, {})
    assert loaded.config.authentication.plugins[0].settings == {"bind": {"password": "hunter2"}}
    assert "settings: '***'  " in render(loaded)
    assert "settings: {}  " in render(loaded)
    for shown in (render(loaded), repr(loaded.config), str(list(settings(loaded.config, loaded.sources)))):
        assert "hunter2" not in shown
    (problem,) = check(path, "authentication: {plugins: [{name: ldap, settings: hunter2}]}")
    assert "hunter2" not in problem
    environ = {"SLUICE_AUTHENTICATION__PLUGINS": "[{'hunter2"}
    with pytest.raises(config.ConfigError) as caught:
        config.load(None, environ)
    assert "hunter2" not in str(caught.value)
