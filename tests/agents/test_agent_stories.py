"""Five programs from their start to their fix, by the SDK's own client over stdio."""

import json

import anyio
import pytest
from agents_kit import ROOT, STORIES, play
from samples import night

#: What the verdict has to say: the op, the kind of the reason, the text of the line.
VERDICTS = {
    "torch": ("pow", "half", "loss = (y**2).mean()"),
    "keras": ("Log", "log", "return -ops.mean(ops.sum(labels * ops.log(chances), axis=-1))"),
    "jax": ("log", "log", "return level, jnp.log(level)"),
    "onnx": ("Div", "division", None),
}
_MOST_CALLS = 6


def answers(name, folder):
    story = next(story for story in STORIES if story.name == name)
    assert sum(bool(call.tool) for call in story.calls) <= _MOST_CALLS
    told = anyio.run(play, story, folder)
    assert all(len(text) <= 8_000 for _, text in told)
    return [(call.tool, json.loads(text)) for call, text in told if text]


def check(found, name):
    """The verdict, and a fix that makes the run clean or can be written."""
    given = dict(found[:5])  # the first program's
    (verdict,) = given["verdict"]["untrusted_text"]["verdict"]
    op, kind, line = VERDICTS[name]
    assert (verdict["tensor"]["op"], verdict["reason"]["kind"]) == (op, kind)
    assert (verdict["line"] or {}).get("text") == line
    fixes = given["fix"]["untrusted_text"]["fixes"]
    assert any(fix["clean"] or fix["patch"] for fix in fixes)


@pytest.mark.slow
class TestStories:
    @pytest.mark.torch
    def test_pytorch_float16(self, tmp_path):
        self._program(tmp_path, "torch")

    @night
    @pytest.mark.tensorflow
    def test_keras_fit(self, tmp_path):
        self._program(tmp_path, "keras")

    @pytest.mark.jax
    def test_jax_scan(self, tmp_path):
        self._program(tmp_path, "jax")

    def _program(self, folder, name):
        found = answers(name, folder)
        check(found, name)
        tool, last = found[-1]
        assert (tool, last["at"], last["status"]) == ("run_until", "ended", 0)

    @pytest.mark.onnx
    def test_onnx_model(self, tmp_path):
        check(answers("onnx", tmp_path), "onnx")

    def test_two_runs(self, tmp_path):
        found = dict(answers("compare", tmp_path))
        first = found["compare"]["untrusted_text"]["pairs"][0]
        assert first["beyond"]
        line = first["lines"][0]["line"]
        shown = {row.get("line"): row for row in found["source"]["untrusted_text"]["lines"]}
        assert "eps" in shown[line]["text"]


def test_the_page_has_the_stories():
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    for story in STORIES:
        assert f"### {story.title}\n" in page
        assert story.source.strip() in page
        for call in story.calls:
            assert f"`{call.tool}(" in page if call.tool else call.said in page
