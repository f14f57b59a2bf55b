"""A report in a real browser: it says nothing on the console and asks for nothing."""

import json
import os
import re
import shutil
import subprocess

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

PROGRAM = """
import numpy as np
from tfdbg_cli.engines import numpy as tf

x = tf.placeholder(tf.float32, (40, 60), name="x")
loss = tf.reduce_sum(tf.log(x, name="y"), name="loss")
with tf.Session() as session:
    value = np.random.default_rng(1).random((40, 60)).astype("float32")
    value[3, 7] = 0  # <script src="http://leak.invalid/script.js"></script>
    session.run(loss, {x: value})
"""
# Of a page on a phone: how much it is too wide, and of the columns of prose the narrowest.
PHONE = """<!DOCTYPE html><script>function measure(page) {
  const all = page.documentElement, cells = [...page.querySelectorAll(".box td")];
  const narrowest = Math.min(...cells.map(each => each.clientWidth));
  document.title = `${all.scrollWidth - all.clientWidth} ${narrowest}`;
}</script><iframe src="page.html" width="390" height="800"
onload="measure(this.contentDocument)"></iframe>"""
LEAKS = """<!DOCTYPE html><title>leaks</title>
<img src="http://leak.invalid/x.png"><script>console.log("hello")</script>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


def browse(folder, page, *options):
    """The browser at a page: what was said on the console, and what was asked for elsewhere.

    Nothing leaves this machine: no name has an address.
    """
    log = folder / "net.json"
    done = subprocess.run(
        [
            *(BROWSER, "--headless", "--disable-gpu", "--no-first-run", "--no-sandbox"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            "--host-resolver-rules=MAP * ~NOTFOUND",
            *(f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}"),
            *("--enable-logging=stderr", *options, page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "HOME": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    text = log.read_text(encoding="utf-8")
    try:
        events = json.loads(text)["events"]
    except ValueError:  # it was ended while it wrote
        events = json.loads(text.rstrip().rstrip(",") + "]}")["events"]
    said = re.findall(r"CONSOLE.*", done.stderr)
    asked = {event["params"]["url"] for event in events if "url" in event.get("params", {})}
    # What the browser asks its makers has nothing to do with the page.
    makers = re.compile(
        r"https?://([\w-]+\.)*(google|googleapis|gstatic|gvt1|chromium)\.(com|org)/"
    )
    return said, {url for url in asked if not makers.match(url)}


def dom(folder, page, *options):
    """The page as the browser has it in the end."""
    return subprocess.run(
        [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            "--host-resolver-rules=MAP * ~NOTFOUND",
            *("--disable-background-networking", "--disable-component-update", *options),
            *(f"--user-data-dir={folder / 'profile'}", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    ).stdout


def test_the_check_would_see_it(tmp_path):
    page = tmp_path / "leaks.html"
    page.write_text(LEAKS)
    said, asked = browse(tmp_path, page, f"--screenshot={tmp_path / 'x.png'}")
    assert "hello" in "".join(said)
    assert asked == {"http://leak.invalid/x.png"}


def test_it_shows_itself_and_asks_for_nothing(runner):
    program = runner.write("program.py", PROGRAM)
    options = ["--batch", "--report", "page.html", "-c", "run -f has_inf_or_nan"]
    runner.python("-m", "tfdbg_cli", *options, program)
    page = runner.folder / "page.html"
    pictures = []
    for scheme in (0, 1):  # dark, light
        picture = runner.folder / f"{scheme}.png"
        look = f"--blink-settings=preferredColorScheme={scheme}"
        shot = f"--screenshot={picture}"
        said, asked = browse(runner.folder, page, look, shot, "--window-size=1000,2400")
        assert (said, asked) == ([], set())
        pictures.append(picture.read_bytes())
    assert pictures[0] != pictures[1]
    paper = runner.folder / "page.pdf"
    said, asked = browse(runner.folder, page, f"--print-to-pdf={paper}")
    assert (said, asked) == ([], set())
    assert paper.read_bytes().startswith(b"%PDF")
    # Parts that only a script or another file would show are there.
    shown = dom(runner.folder, page)
    assert "It began in" in shown
    assert shown.count("<svg") == page.read_text().count("<svg") >= 2
    assert "<script" not in shown


def test_nothing_but_a_box_that_scrolls_is_wider_than_a_phone(runner):
    # Long names of a file and of a tensor, as in the programs of most people.
    text = PROGRAM.replace('"y"', '"encoder/layers_0/attention/scores_of_all_heads"')
    program = runner.write(f"{'a_long_name_' * 8}.py", text)
    options = ["--batch", "--report", "page.html", "-c", "run -f has_inf_or_nan"]
    runner.python("-m", "tfdbg_cli", *options, program)
    phone = runner.folder / "phone.html"
    phone.write_text(PHONE)
    shown = dom(runner.folder, phone, "--allow-file-access-from-files")
    beyond, narrowest = map(int, re.search("<title>(.*)</title>", shown)[1].split())
    assert beyond == 0
    assert narrowest > 100
