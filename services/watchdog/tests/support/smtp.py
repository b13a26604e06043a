"""A mail server for tests: keeps each mail as a line of JSON.

Usage: smtp.py FILE [CERTIFICATE KEY USER PASSWORD STARTTLS|TLS]. The port is written to FILE.port. With a certificate,
STARTTLS is asked for, or all is TLS from the first byte on, and then the user's name and password are.
"""

import asyncio
import json
import os
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

kept, *secure = sys.argv[1:]
implicit = secure[4:] == ["TLS"]


class Keeper:
    async def handle_DATA(self, server, session, envelope):
        user = session.auth_data.login.decode() if session.authenticated else None
        mail = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "tls": server.transport.get_extra_info("ssl_object") is not None,
            "user": user,
            "mail": envelope.content.decode(),
        }
        with open(kept, "a") as out:
            out.write(json.dumps(mail) + "\n")
        return "250 kept"


def login(server, session, envelope, mechanism, data):
    known = isinstance(data, LoginPassword) and [data.login.decode(), data.password.decode()] == secure[2:4]
    return AuthResult(success=known, handled=False, auth_data=data)


def tls_context():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(secure[0], secure[1])
    return context


def protocol():
    if not secure:
        return SMTP(Keeper(), hostname="localhost")
    # What is TLS already has no STARTTLS, and the server does not see that it is.
    starttls = {} if implicit else {"tls_context": tls_context(), "require_starttls": True}
    return SMTP(
        Keeper(),
        hostname="localhost",
        authenticator=login,
        auth_required=True,
        auth_require_tls=not implicit,
        **starttls,
    )


async def serve():
    wrapped = tls_context() if implicit else None
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0, ssl=wrapped)
    with open(kept + ".new", "w") as out:
        out.write(str(server.sockets[0].getsockname()[1]))
    os.rename(kept + ".new", kept + ".port")
    await server.serve_forever()


asyncio.run(serve())
