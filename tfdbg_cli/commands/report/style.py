"""How a report looks: in light, in dark, and on paper."""

from __future__ import annotations

from tfdbg_cli.commands.graph.drawing.svg import STYLE as GRAPH_STYLE
from tfdbg_cli.commands.series.files import STYLE as SERIES_STYLE
from tfdbg_cli.tensors.pictures.colours import BAD

__all__ = ["POLICY", "STYLE"]

#: Nothing is loaded, nothing is run: only what is in the file is shown.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

STYLE = (
    """\
:root { color-scheme: light dark; --text: #1f2328; --back: #ffffff; --soft: #f6f8fa;
  --edge: #d0d7de; --dim: #59636e; --bad: #b4202a; --ok: #1a7f37; --warn: #7d4e00;
  --op: #6f42c1; --blue: #0550ae; --bar: #4c8bf5; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --back: #0d1117; --soft: #161b22;
  --edge: #3d444d; --dim: #9198a1; --bad: #ff8982; --ok: #56d364; --warn: #e3b341;
  --op: #d2a8ff; --blue: #79c0ff; --bar: #58a6ff; } }
@media print { :root { color-scheme: light; --text: #000; --back: #fff; --soft: #f6f8fa;
  --edge: #8c959f; --dim: #444; --bad: #b4202a; --ok: #1a7f37; --warn: #7d4e00; --op: #6f42c1;
  --blue: #0550ae; --bar: #4c8bf5; } section, figure { break-inside: avoid; }
  svg { max-width: 100%; height: auto; } .here, .swatch { print-color-adjust: exact; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 68rem; background: var(--back);
  color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--edge); }
h3 { font-size: 1rem; margin: 1rem 0 .25rem; }
header p, .note, figcaption { color: var(--dim); margin: .25rem 0; }
pre, code, td, th, svg text { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas,
  monospace; font-size: .85rem; }
pre { background: var(--soft); border: 1px solid var(--edge); border-radius: 6px;
  padding: .75rem; overflow-x: auto; margin: .5rem 0; }
code { overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0;
  overflow-wrap: anywhere; }
th { color: var(--dim); font-weight: normal; white-space: nowrap; }
figure, .wide, .box { margin: .75rem 0; overflow-x: auto; }
.wide th, .wide td { white-space: nowrap; overflow-wrap: normal; }
img { image-rendering: pixelated; border: 1px solid var(--edge); max-width: 100%; height: auto; }
.r-bold, .r-heading { font-weight: 600; }
.r-error, .r-nan, .r-inf, .bad { color: var(--bad); font-weight: 600; }
.r-warning { color: var(--warn); }
.r-success, .ok { color: var(--ok); }
.r-dim, .number { color: var(--dim); }
.r-op_type { color: var(--op); }
.here { background: color-mix(in srgb, var(--bad) 14%, transparent); display: inline-block;
  min-width: 100%; color: inherit; }
.r-keyword { color: var(--bad); } .r-string, .r-number { color: var(--blue); }
.r-comment { color: var(--dim); font-style: italic; }
.r-definition, .r-builtin { color: var(--op); }
.chart rect { fill: var(--bar); } .chart rect.bad { fill: var(--bad); }
.chart line { stroke: var(--edge); fill: none; }
.chart text { fill: var(--dim); font-size: 12px; } .chart text.bad { fill: var(--bad); }
.chart, .series { max-width: 100%; height: auto; }
@media (max-width: 40rem) { body { padding: 1rem; } .chart text { font-size: 20px; }
  .told { white-space: pre-wrap; overflow-wrap: anywhere; }
  .box th { white-space: normal; } .box td { min-width: 12em; } }
.swatch { display: inline-block; width: .8em; height: .8em; border: 1px solid var(--edge); }
"""
    + "".join(f".c{colour:06x} {{ background: #{colour:06x}; }}\n" for _, colour, _ in BAD.values())
    + GRAPH_STYLE
    + SERIES_STYLE
)
