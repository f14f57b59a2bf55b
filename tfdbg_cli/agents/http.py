"""The server over HTTP, at a port of this machine; a client has to have its token."""

from __future__ import annotations

import contextlib
import hmac
from typing import Any

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.responses import PlainTextResponse

from tfdbg_cli.common.streams import tell
from tfdbg_cli.net.address import Address, bind
from tfdbg_cli.net.tokens import write_ticket

__all__ = ["serve"]


class _TokenCheck:
    """Lets requests pass that bear the token; nothing else of them is looked at before.

    Args:
        app: what answers them.
        token: 64 hexadecimal digits.
    """

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._wanted):
                refusal = PlainTextResponse("The token is missing or wrong.\n", 401)
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def serve(server: MCPServer[None], address: Address) -> None:
    """Serve until a signal ends it.

    Args:
        server: what answers.
        address: where, a port that only this machine can reach.

    Raises:
        UserError: it can't listen there.
    """
    listener, address = bind(address)
    ticket = write_ticket(address, "mcp")
    try:
        app = server.streamable_http_app(host=address.host)
        config = uvicorn.Config(_TokenCheck(app, ticket.token), log_level="error", lifespan="on")
        tell(f"serving at http://{address.host}:{address.port}/mcp; its token: {ticket.path}")
        anyio.run(lambda: uvicorn.Server(config).serve([listener]))
    finally:
        with contextlib.suppress(OSError):
            ticket.path.unlink()
