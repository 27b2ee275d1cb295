"""TLS of a listener, or of the admin API."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, model_validator

from config.ciphers import check_ciphers, check_curve
from config.value_types import Model, check_template, check_version


class Tls(Model):
    """TLS of one listener. The files are PEM; paths are relative to the working directory."""

    certfile: Path
    """The certificate and its chain."""
    keyfile: Path | None = None
    """The private key; None if it is in certfile."""
    cafile: Path | None = None
    """The authorities that must have issued client certificates."""
    partial_chain: bool = False
    """Trust each authority in cafile by itself, also one that is no root: its root need not be there."""
    require_client_certificate: bool = False
    """Refuse clients without a valid certificate; this authenticates them. Needs cafile."""
    username: Annotated[str | None, BeforeValidator(check_template)] = None
    """The user name of a client with a certificate: a text with `{cn}`, `{dns}`, `{email}` or `{uri}`; None = none."""
    crlfile: Path | None = None
    """Lists of revoked certificates, for each authority that has issued any; None = they are not looked at."""
    minimum_version: Annotated[Literal["1.2", "1.3"], BeforeValidator(check_version)] = "1.2"
    """The oldest TLS version accepted."""
    ciphers: Annotated[str | None, BeforeValidator(check_ciphers)] = None
    """The ciphers of TLS 1.2, as OpenSSL names them, the preferred ones first; None = Python's secure ones."""
    curve: Annotated[str | None, BeforeValidator(check_curve)] = None
    """The one curve of the key exchange; None = those that OpenSSL prefers."""

    @model_validator(mode="after")
    def _check_cafile(self) -> Self:
        if self.cafile is None and (self.username is not None or self.crlfile is not None):
            raise ValueError("username and crlfile are about client certificates: set cafile to their authorities")
        if self.cafile is None and self.partial_chain:
            raise ValueError("partial_chain is about the authorities in cafile: set cafile")
        if self.ciphers is not None and self.minimum_version == "1.3":
            raise ValueError("ciphers are those of TLS 1.2: leave them out with minimum_version 1.3, which has its own")
        return self
