"""What is wrong with a server's certificate, and what to do about it.

Nothing here turns verification off: without it a key would go to whoever stands in between.
"""

import os
import ssl
from pathlib import Path

# Source: the numbers of OpenSSL's X509_V_ERR_* (x509_vfy.h), which Python passes on.
_NOT_YET, _EXPIRED = 9, 10
_UNKNOWN_SIGNER = frozenset({18, 19, 20, 21})
_OTHER_HOST = frozenset({62, 64})


def certificate_problem(error: ssl.SSLCertVerificationError) -> str:
    """Say why a certificate was refused, and the next move; the end of a message."""
    reason = error.verify_message.rstrip(".")
    match error.verify_code:
        case code if code in _UNKNOWN_SIGNER:
            return (
                f"its certificate is signed by nobody whom this machine trusts ({reason}). If the "
                "server is yours, name a PEM file with the certificate of who signed it, or with "
                f"its own: SSL_CERT_FILE=ca.pem skillwright ...{_missing_file()}"
            )
        case code if code in _OTHER_HOST:
            return (
                f"its certificate is for another host ({reason}). Address it by a name that its "
                "certificate has, or give it one for this name"
            )
        case code if code == _EXPIRED:
            return "its certificate has expired. Renew it there, or correct this machine's clock"
        case code if code == _NOT_YET:
            return "its certificate is not valid yet. Correct this machine's clock, or the server's"
        case _:
            return f"its certificate is refused ({reason}). Correct it at the server"


def _missing_file() -> str:
    named = os.environ.get("SSL_CERT_FILE")
    if not named or Path(named).is_file():
        return ""
    return f" (SSL_CERT_FILE names {named!r} now, and there is no such file)"
