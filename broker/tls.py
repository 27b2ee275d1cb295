"""TLS contexts for listeners."""

import ssl

from config.models import Tls

_MINIMUM = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def server_context(tls: Tls) -> ssl.SSLContext:
    """The context that a listener's configuration asks for. Raises OSError, naming the file at fault."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = _MINIMUM[tls.minimum_version]
    context.options |= ssl.OP_NO_RENEGOTIATION  # OpenSSL 1.1.1 lets clients ask for it; compression is off
    try:
        context.load_cert_chain(tls.certfile, tls.keyfile)
    except (OSError, ssl.SSLError) as error:
        key = tls.keyfile or tls.certfile
        raise OSError(f"certificate {tls.certfile} with key {key} cannot be used: {error}") from error
    if tls.cafile is not None:
        try:
            context.load_verify_locations(tls.cafile)
        except (OSError, ssl.SSLError) as error:
            raise OSError(f"authorities in {tls.cafile} cannot be used: {error}") from error
        context.verify_mode = ssl.CERT_REQUIRED if tls.require_client_certificate else ssl.CERT_OPTIONAL
    return context
