"""``tfdbg mcp``: programs that die, clients that hang up, flood, cancel or talk nonsense."""

import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from agents_kit import ROOT, agent, told_by, until
from mcp.shared.exceptions import MCPError
from samples import IS_LONG

from tfdbg_cli.agents.answers import fitted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="needs Unix sockets"),
]


def run(story):
    """A test whose story is a coroutine of its folder."""

    def test(tmp_path, monkeypatch):
        (tmp_path / "tmp").mkdir()
        monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
        told_by(story, tmp_path)

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


def is_alive(folder):
    try:
        os.kill(int((folder / "pid").read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def is_clean(folder):
    """No program, no temporary folder, no token."""
    tokens = Path(os.environ["XDG_STATE_HOME"], "tfdbg_cli", "attach")
    left = [*(folder / "tmp").iterdir(), *tokens.glob("*.token")]
    return not left and not is_alive(folder)


@run
async def test_from_start_to_end(folder):
    async with agent(folder) as ask:
        started = await ask("start", script="p.py", args=["9"])
        assert started["session"] == "s1"
        found = await ask("run_until")
        assert found["at"] == "error"
        (verdict,) = (await ask("verdict"))["untrusted_text"]["verdict"]
        assert verdict["tensor"]["name"] == "y:0"
        assert verdict["reason"]["elements"] == [[1]]
        rows = (await ask("tensor", name="y:0", bad_only=True))["untrusted_text"]["rows"]
        assert rows[1:] == [{"at": [1], "values": ["-inf"]}]
        part = (await ask("tensor", name="y:0", slice="0:1"))["untrusted_text"]["rows"]
        assert part[1:] == [{"at": [0], "values": [0.0]}]
        nodes = (await ask("graph", name="y"))["untrusted_text"]["nodes"]
        assert {each["node"] for each in nodes} >= {"x", "y", "z"}
        lines = (await ask("source", line=6))["untrusted_text"]["lines"]
        assert lines[1]["nodes"] == ["y"]
        assert (await ask("inputs", name="y"))["untrusted_text"]["inputs"][0]["node"] == "x"
        map_of_y = await ask.client.call_tool("tensor", {"name": "y:0", "picture": True})
        assert map_of_y.content[1].mime_type == "image/png"
        assert base64.b64decode(map_of_y.content[1].data).startswith(b"\x89PNG")
        told = await ask("tensors", filter="has_inf_or_nan", sort="-tensor_name")
        assert [row["tensor"] for row in told["untrusted_text"]["tensors"]] == ["z:0", "y:0"]
        out = await ask.page("s1/stdout/0")
        assert out["untrusted_text"].split("\n")[:8] == [*(f"step {n}" for n in range(7)), ""]
        assert "<html" in (await ask.page("s1/report/0"))["untrusted_text"]
        ended = await ask("run_until")
        assert (ended["at"], ended["status"]) == ("ended", 0)
        assert ended["untrusted_text"]["stdout"].endswith("step 8\n")
        assert "ended" in await ask.refused("verdict")
        assert (await ask("stop"))["at"] == "stopped"
        assert "0 sessions" in await ask.refused("verdict")


@run
async def test_so_many_runs_and_then_no_further(folder):
    async with agent(folder) as ask:
        await ask("start", script="p.py")
        for expected in (2, 5):
            found = await ask("run_until", max_runs=3)
            assert found["at"] == "end"
            assert (folder / "steps").read_text() == str(expected - 1)
        found = await ask("run_until", filter="", max_runs=1)
        assert found["at"] == "end"


@run
async def test_time_that_is_over_stops_at_the_end_of_a_run(folder):
    async with agent(folder, program=_CLEAN) as ask:
        await ask("start", script="p.py")
        found = await ask("run_until", timeout=0.2)
        while found["at"] == "running":  # on a machine that is very busy
            found = await ask("run_until", timeout=0.2)
        assert found["at"] in ("end", "start")


_CLEAN = """\
import os, pathlib
from tfdbg_cli.engines import numpy as tf

pathlib.Path("pid").write_text(str(os.getpid()))
x = tf.placeholder(tf.float32, [None], name="x")
y = tf.square(x, name="y")
with tf.Session() as session:
    while True:
        session.run(y, {x: [1.0]})
"""


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ("raise ValueError('the data were bad')", 1),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("sys.exit(7)", 7),
    ],
)
def test_a_program_that_dies_tells_how(tmp_path, last, status):
    program = _CLEAN.replace("while True", "for step in range(3)") + (
        f"import sys\nprint('so far')\nprint('the last word', file=sys.stderr)\n{last}\n"
    )

    async def story():
        async with agent(tmp_path, program=program) as ask:
            await ask("start", script="p.py")
            ended = await ask("run_until")
            assert (ended["at"], ended["status"]) == ("ended", status)
            assert ended["untrusted_text"]["stdout"] == "so far\n"
            assert "the last word" in ended["untrusted_text"]["stderr"]
            assert ("the data were bad" in ended["untrusted_text"]["stderr"]) == (status == 1)

    told_by(story)


@run
async def test_a_program_without_runs_has_ended(folder):
    async with agent(folder, program="print('nothing to see')\n") as ask:
        found = await ask("start", script="p.py")
        if found["session"]:  # it was attached to in time
            found = await ask("run_until")
        assert (found["at"], found["status"]) == ("ended", 0)
        assert "nothing to see" in found["untrusted_text"]["stdout"]
        assert "no file" in await ask.refused("start", script="q.py")


@run
async def test_a_run_that_fails_has_its_error_in_the_verdict(folder):
    program = _CLEAN.replace("[1.0]}", "'text'}")
    async with agent(folder, program=program) as ask:
        await ask("start", script="p.py")
        found = await ask("run_until")
        if found["at"] == "error":
            told = (await ask("verdict"))["untrusted_text"]
            assert told["error"]["type"]
        else:
            assert found["at"] == "ended" and found["status"] == 1


@run
async def test_what_a_program_prints_is_no_message_of_the_server(folder):
    shout = '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
    program = (
        "import os, sys\n"
        f"for line in range(20000): print({shout!r})\n"
        f"os.write(1, {shout.encode()!r}); os.system('echo from a child')\n"
        + _CLEAN.replace("while True", "for step in range(3)")
    )
    async with agent(folder, program=program) as ask:
        await ask("start", script="p.py")
        await ask("run_until", filter="", max_runs=1)
        first = await ask.page("s1/stdout/0")
        assert first["untrusted_text"].startswith(shout)
        last = await ask.page(f"s1/stdout/{first['pages'] - 1}")
        assert last["untrusted_text"].endswith("from a child\n")
        assert first["bytes"] > 20000 * len(shout)


@run
async def test_several_sessions_at_once(folder):
    async with agent(folder) as ask:
        (folder / "q.py").write_text(_CLEAN)
        await ask("start", script="p.py")
        await ask("start", script="q.py")
        assert "Say which: s1, s2." in await ask.refused("verdict")
        found = {}

        async def wait(name, **arguments):
            found[name] = await ask("run_until", session=name, **arguments)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, "s1")
            tasks.start_soon(lambda: wait("s2", max_runs=2))
        assert (found["s1"]["at"], found["s2"]["at"]) == ("error", "end")
        await ask("stop", session="s1")
        assert (await ask("tensors"))["session"] == "s2"


@run
async def test_attached_programs_run_on(folder):
    (folder / "p.py").write_text(_CLEAN)
    job = subprocess.Popen(
        [sys.executable, "-m", "tfdbg_cli", "--listen", "unix:sock", "p.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    try:
        async with agent(folder, program=_CLEAN) as ask:
            address = f"unix:{folder / 'sock'}"
            tokens = Path(os.environ["XDG_STATE_HOME"], "tfdbg_cli", "attach")
            await until(lambda: any(tokens.glob("*.token")))
            found = await ask("attach", address=address)
            assert "p.py" in found["untrusted_text"]["program"]
            assert (await ask("run_until", max_runs=2))["at"] == "end"
            assert "isn't here" in str(await _fails(ask.page("s1/stdout/0")))
            assert "<html" in (await ask.page("s1/report/0"))["untrusted_text"]
            map_of_y = await ask.client.call_tool("tensor", {"name": "y:0", "picture": True})
            assert map_of_y.content[-1].type == "image"
            await ask("stop")
            assert job.poll() is None
    finally:
        job.kill()
        job.wait()


async def _fails(waited):
    with pytest.raises(MCPError) as told:
        await waited
    return told.value


@run
async def test_dumps_are_opened_and_compared(folder):
    async with agent(folder) as ask:
        for name in ("a", "b"):
            subprocess.run(
                [
                    *(sys.executable, "-m", "tfdbg_cli", "--batch", "--keep-dumps"),
                    *("--dump-root", name, "-c", "run -k", "p.py", "9"),
                ],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                check=True,
                capture_output=True,
            )
        opened = await ask("open", dump_dir="a")
        assert opened["at"] == "offline"
        assert "No pair" in (await ask("compare", b="b"))["hint"]
        runs = await ask("command", text="runs --json")
        assert runs["total"] == 9
        await ask("command", text="use 7")
        (verdict,) = (await ask("verdict"))["untrusted_text"]["verdict"]
        assert verdict["tensor"]["name"] == "y:0"
        assert "program that ran it is gone" in await ask.refused("fix")
        (folder / "empty").mkdir()
        refused = await ask("open", dump_dir="empty")
        assert (refused["at"], refused["status"]) == ("ended", 2)
        assert "empty" in refused["untrusted_text"]["stderr"]


@run
async def test_a_client_that_hangs_up_leaves_nothing(folder):
    with anyio.move_on_after(60):
        async with agent(folder, program=_CLEAN) as ask, anyio.create_task_group() as tasks:
            await ask("start", script="p.py")
            tasks.start_soon(lambda: ask("run_until"))
            await until(lambda: is_alive(folder))
            tasks.cancel_scope.cancel()
    await until(lambda: is_clean(folder))


def test_a_server_that_is_told_to_end_ends_its_programs(tmp_path):
    async def story():
        async with agent(tmp_path, program=_CLEAN) as ask:
            await ask("start", script="p.py")
            await until(lambda: is_alive(tmp_path))
            (server,) = {
                int(path.name)
                for path in Path("/proc").iterdir()
                if path.name.isdecimal() and _is_server(path, tmp_path)
            }
            os.kill(server, signal.SIGTERM)
            await until(lambda: not is_alive(tmp_path))

    told_by(story)


def _is_server(path, folder):
    try:
        is_ours = (path / "cwd").resolve() == folder.resolve()
        return is_ours and b"\0mcp\0" in (path / "cmdline").read_bytes()
    except OSError:
        return False


@run
async def test_a_cancelled_wait_stops_the_program(folder):
    async with agent(folder, program=_CLEAN) as ask:
        await ask("start", script="p.py")
        with anyio.CancelScope() as scope:

            async def progress(done, total, message):
                if is_alive(folder):
                    scope.cancel()

            await ask.client.call_tool("run_until", {}, progress_callback=progress)
        assert scope.cancelled_caught
        found = {"at": "running"}
        while found["at"] == "running":  # the end of its run comes
            text = await ask.client.call_tool("command", {"text": "run_info"})
            found = json.loads(text.content[0].text) if not text.is_error else found
        assert found["at"] in ("start", "end")


@run
async def test_wrong_calls_are_refused_and_nothing_else_happens(folder):
    async with agent(folder) as ask:
        assert "script" in await ask.refused("start")
        assert "script" in await ask.refused("start", script={"a": 1})
        assert "first" in await ask.refused("tensors", first="many")
        assert "no_such_tool" in await ask.refused("no_such_tool")
        await ask("start", script="p.py")
        await ask("run_until")
        told = json.loads(await ask.refused("tensor", name="no_such:0"))
        assert "no_such" in told["untrusted_text"]["refusal"]
        assert "There are: s1." in await ask.refused("verdict", session="s9")
        assert "filter" in await ask.refused("tensors", filter="no_such_filter")
        assert (await ask("verdict"))["total"] == 1


@run
async def test_a_flood_of_calls_is_answered(folder):
    async with agent(folder) as ask:
        await ask("start", script="p.py")
        await ask("run_until")
        found = []

        async def one(at):
            answer = await ask("tensors" if at % 2 else "verdict")
            found.append(answer["total"])

        async with anyio.create_task_group() as tasks:
            for at in range(200):
                tasks.start_soon(one, at)
        assert len(found) == 200
        if IS_LONG:
            for _ in range(15):
                await ask("start", script="p.py")
            assert "There are 16 sessions" in await ask.refused("start", script="p.py")


def test_nonsense_on_stdin_ends_nothing(tmp_path):
    (tmp_path / "p.py").write_text(_CLEAN)
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    lines = [
        "no json",
        "[]",
        '{"jsonrpc": "2.0"}',
        "\x00\xff" * 100,
        "[" * 100_000,
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": 7}}),
        json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/list"}),
    ]
    done = subprocess.Popen(
        [sys.executable, "-m", "tfdbg_cli", "mcp"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    done.stdin.write("\n".join(lines) + "\n")
    done.stdin.flush()
    found = {}
    while 3 not in found:
        message = json.loads(done.stdout.readline())
        found[message.get("id")] = message
    done.stdin.close()
    assert done.wait(60) == 0
    assert "error" in found[2]
    assert len(found[3]["result"]["tools"]) == 15


@run
async def test_sessions_in_turn_leave_nothing(folder):
    async with agent(folder) as ask:
        for _ in range(100 if IS_LONG else 4):
            name = (await ask("start", script="p.py"))["session"]
            await ask("run_until", session=name)
            await ask("stop", session=name)
            await until(lambda: is_clean(folder))


@run
async def test_answers_are_short(folder):
    program = (
        _CLEAN.replace("while True", "for step in range(3)")
        .replace("[None], name", "[1000], name")
        .replace("[1.0]", "[1.0] * 1000")
        .replace('name="y")', 'name="y")\nfor n in range(300): y = tf.square(x, name=f"{n:0200}")')
    )
    async with agent(folder, program=program) as ask:
        await ask("start", script="p.py")
        await ask("run_until", filter="", max_runs=1)
        calls = (
            ("tensors", {}),
            ("tensor", {"name": "x:0"}),
            ("source", {"file": "p.py"}),
            ("command", {"text": "help"}),
            ("graph", {"name": "x"}),
        )
        for tool, arguments in calls:
            seen, first = 0, 0
            while first is not None:
                answer = await ask(tool, **arguments, **({"first": first} if first else {}))
                assert len(json.dumps(answer, separators=(",", ":"))) <= 8_000  # the default
                rows = next(v for v in answer["untrusted_text"].values() if isinstance(v, list))
                assert rows
                seen += len(rows)
                first = answer.get("next") if tool in ("tensors", "tensor", "command") else None
            if tool in ("tensors", "tensor", "command"):
                assert seen == answer["total"]


def test_a_row_that_is_too_long_is_shortened():
    row = {"name": "n" * 9000, "list": [*range(5000)], "deep": {"text": "t" * 3000}}
    found, is_cut = fitted(row, 2000)
    assert is_cut and len(json.dumps(found)) <= 2000
    assert found["list"][:3] == [0, 1, 2]
    assert fitted({"a": 1}, 100) == ({"a": 1}, False)
