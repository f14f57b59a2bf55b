"""What all tools of ``tfdbg mcp`` share: the sessions, commands at their stops, answers."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, TextContent

from tfdbg_cli.agents.answers import Answer, fitted, paged, size_of
from tfdbg_cli.agents.rights import Rights
from tfdbg_cli.agents.sessions import STREAMS, EndedError, RefusedError, Session
from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.reply import Reply
from tfdbg_cli.common.documents import Document
from tfdbg_cli.common.errors import UserError

__all__ = ["Desk", "ended_answer", "objects", "said", "texts"]

# So much of a program's output is in an answer about its end.
_LAST_BYTES = 1_500
_TITLE_BYTES = 300
# What is around untrusted_text in an answer.
_AROUND_BYTES = 500
# Of a row that is too long for the connection.
_CUT_BYTES = 8_000
_MOST_SESSIONS = 16
# How long a thread waits before it looks whether the call was cancelled.
_TICK_SECONDS = 0.5

_Value = TypeVar("_Value")


class Desk:
    """What the tools share: the sessions, and what clients may do.

    Args:
        rights: what clients may do.
        limit: bytes of an answer.
    """

    def __init__(self, rights: Rights, limit: int) -> None:
        self._rights = rights
        self._limit = limit
        self._registry = make_registry()
        self._sessions: dict[str, Session] = {}
        self._locks: dict[str, anyio.Lock] = {}
        self._count = 0

    # Sessions.

    def close(self) -> None:
        """End all sessions."""
        sessions = [*self._sessions.values()]
        self._sessions.clear()
        with ThreadPoolExecutor(_MOST_SESSIONS) as pool:
            list(pool.map(Session.close, sessions))

    def kill(self) -> None:
        """End the programs at once: a signal ends this server."""
        for session in [*self._sessions.values()]:
            session.kill()

    def session(self, name: str) -> Session:
        """A session by its name; without one, the only session.

        Raises:
            UserError: there is none, or several.
        """
        if name in self._sessions:
            return self._sessions[name]
        known = ", ".join(self._sessions)
        if name:
            raise UserError("There is no such session.", f"There are: {known or 'none'}.")
        if len(self._sessions) != 1:
            hint = f"Say which: {known}." if known else "start, attach or open begins one."
            raise UserError(f"There are {len(self._sessions)} sessions.", hint)
        return next(iter(self._sessions.values()))

    async def _begin(self, make: Callable[[str], Session]) -> Session:
        if len(self._sessions) >= _MOST_SESSIONS:
            raise UserError(f"There are {_MOST_SESSIONS} sessions.", "stop ends one.")
        self._count += 1
        name = f"s{self._count}"
        # Whatever becomes of the call, a process that was started is known, and can be ended.
        with anyio.CancelScope(shield=True):
            session = await anyio.to_thread.run_sync(make, name)
            self._sessions[name] = session
            self._locks[name] = anyio.Lock()
        return session

    # Answers.

    def _result(self, answer: Answer, *more: Any, is_error: bool = False) -> CallToolResult:
        """An answer as it is sent; nothing in it may make it too long."""
        room = self._limit - _AROUND_BYTES
        answer.untrusted_text, is_cut = fitted(answer.untrusted_text, room)
        answer.cut |= is_cut
        return CallToolResult(
            content=[TextContent(type="text", text=answer.json()), *more],
            structured_content=answer.plain(),
            is_error=is_error,
        )

    def refusal(self, session: str, error: RefusedError) -> CallToolResult:
        """What the program has said to a command that it refuses."""
        with contextlib.suppress(UserError):
            found = self.session(session)
            answer = Answer(found.name, found.at, "The debugger in the program refuses this.")
            answer.untrusted_text["refusal"] = str(error)
            return self._result(answer, is_error=True)
        answer = Answer("", "", "It can't be attached to.", untrusted_text={"refusal": str(error)})
        return self._result(answer, is_error=True)

    def _answer(self, session: Session, hint: str = "") -> Answer:
        answer = Answer(session.name, session.at, hint)
        if session.title:
            answer.untrusted_text["title"], _ = fitted(session.title, _TITLE_BYTES)
        return answer

    def _state(self, session: Session) -> Answer:
        """Where a session is, with the last lines of a program that has ended."""
        at = session.at
        hints = {
            "start": "run_until lets it run until something is wrong.",
            "end": "tensors lists what this run computed; run_until goes on.",
            "error": "verdict tells what went wrong; error messages are in its answer.",
            "running": "run_until waits for it; stop ends it.",
            "offline": "verdict tells what went wrong; compare sets it beside another run.",
        }
        answer = self._answer(session, hints.get(at, ""))
        if at == "ended":
            answer.status = session.status()
            answer.hint = "It has ended. start runs it again; stop forgets this session."
            answer.untrusted_text["error"] = session.why_ended()
            for stream in STREAMS if session.folder else ():
                text, _ = session.output(stream, -_LAST_BYTES, _LAST_BYTES)
                while size_of(text) > self._limit // 4:  # its end tells most
                    text = text[len(text) // 4 :]
                answer.untrusted_text[stream] = text
        return answer

    async def _ask(
        self,
        session: str,
        command: str,
        field: str,
        first: int = 0,
        hint: str = "",
        nothing: str = "",
    ) -> CallToolResult:
        """The answer to a command that prints JSON: its objects, as many as there is room for."""
        found = self.session(session)
        self._rights.check(command, self._registry)

        def ask() -> Answer:
            reply = found.run(command)
            answer = self._answer(found, hint)
            if reply.document is None:
                return said(answer, reply, nothing)
            document = reply.document
            if not document.line_count and nothing:
                answer.hint = nothing
            return paged(
                answer,
                field,
                document.line_count,
                first,
                lambda begin, end: objects(document, begin, end),
                self._limit,
            )

        return self._result(await self._in_turn(found, ask))

    async def _in_turn(self, session: Session, work: Callable[[], _Value]) -> _Value:
        """Do something in a thread, after what other calls do with this session.

        A call that is cancelled cancels the command in the program.
        """
        async with self._locks.get(session.name) or anyio.Lock():
            try:
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
            except anyio.get_cancelled_exc_class():
                session.cancel()
                raise

    async def _wait(self, session: Session, seconds: float, context: Context) -> bool:
        """Wait until a program stops or ends; whether it still runs. Tells how far it is."""
        began = time.monotonic()
        try:
            while session.at == "running":
                passed = time.monotonic() - began
                if passed >= seconds:
                    return True
                await context.report_progress(
                    passed, seconds, session.connection.progress() or "it runs until its next stop"
                )
                await anyio.to_thread.run_sync(session.wait, _TICK_SECONDS, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            session.cancel()
            raise
        return False

    async def _end(self, session: Session) -> None:
        self._sessions.pop(session.name, None)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(session.close)
        self._locks.pop(session.name, None)


def objects(document: Document, begin: int, end: int) -> list[Any]:
    """Rows of a Document of JSON."""
    found = []
    for text in texts([document], begin, end):
        try:
            value = json.loads(text)
            if "\\ud" in text:  # half a character, which no message can hold
                sound = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
                value = json.loads(sound)
            found.append(value)
        except ValueError:  # too long a line for the connection
            found.append({"cut": text[:_CUT_BYTES]})
    return found


def texts(documents: Sequence[Document], begin: int, end: int) -> list[str]:
    """Lines of Documents, one below the other."""
    found: list[str] = []
    for document in documents:
        count = document.line_count
        if begin < count and end > 0:
            first, last = max(begin, 0), min(end, count)
            document.settle(first, last)
            found += [line.text for line in document.lines(first, last)]
        begin, end = begin - count, end - count
    return found


def ended_answer(error: EndedError, hint: str) -> Answer:
    """The answer about a process that has ended too early."""
    return Answer("", "ended", hint, status=error.status, untrusted_text=dict(error.output))


def said(answer: Answer, reply: Reply, nothing: str = "") -> Answer:
    """An answer with the message of a reply, which has no Document."""
    if reply.message is not None:
        answer.untrusted_text["message"] = reply.message.text
    if reply.question is not None:
        answer.untrusted_text["message"] = reply.question.text
    answer.hint = nothing or answer.hint
    return answer
