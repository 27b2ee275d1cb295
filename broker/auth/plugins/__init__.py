"""What authors of plugins need: the interfaces, and the values that go through them. PLUGINS.md is about it."""

from broker.auth.authenticators.authenticator import Answer, Authenticator, Busy, Login, No
from broker.auth.identity import SUPERUSER, Identity
from broker.auth.permissions import Who
from broker.auth.plugins.authorizer import RulesPlugin
from config.rule import Rule

__all__ = ["Answer", "Authenticator", "Busy", "Identity", "Login", "No", "Rule", "RulesPlugin", "SUPERUSER", "Who"]
