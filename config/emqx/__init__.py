"""Turns a configuration of EMQX into one of Sluice: `sluice import emqx`."""

from config.emqx.reading import Setting, read
from config.emqx.translation import Translated, translate

__all__ = ["Setting", "Translated", "read", "translate"]
