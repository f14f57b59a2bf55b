"""What ``--check-output`` gets: the findings of a check in the formats of other programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfdbg_cli.commands.json_lines import VERSION
from tfdbg_cli.commands.report.finding import Finding
from tfdbg_cli.common.version import __version__

__all__ = ["CHECK_FORMATS", "CheckResult"]

_SARIF = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


class CheckResult(NamedTuple):
    """A check and what it has found.

    Attributes:
        filters: their names.
        failed: in how many runs a tensor has passed one of them.
        findings: each place once.
    """

    filters: Collection[str]
    failed: int
    findings: Sequence[Finding]


def _text(checked: CheckResult) -> str:
    return "".join(
        "".join(f"{line}\n" for line in (each.first_line, *each.story)) for each in checked.findings
    )


def _json(checked: CheckResult) -> str:
    found = {
        "version": VERSION,
        "check": [*checked.filters],
        "failed": checked.failed,
        "findings": [each.record() for each in checked.findings],
    }
    return json.dumps(found, indent=2) + "\n"


def _junit(checked: CheckResult) -> str:
    """The XML that CI servers read: a case for each finding, or one that has passed."""
    from xml.etree import ElementTree

    findings = checked.findings
    suite = ElementTree.Element(
        "testsuite",
        name="tfdbg",
        tests=str(max(len(findings), 1)),
        failures=str(len(findings)),
        errors="0",
    )
    for each in findings:
        case = ElementTree.SubElement(suite, "testcase", classname=each.filter, name=each.run)
        if each.line:
            case.set("file", each.file)
            case.set("line", str(each.line))
        failure = ElementTree.SubElement(case, "failure", message=each.headline)
        failure.text = "\n".join(each.story)
    if not findings:
        name = ",".join(checked.filters)
        ElementTree.SubElement(suite, "testcase", classname=name, name="all runs")
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode") + "\n"


def _sarif(checked: CheckResult) -> str:
    """The log that code scanners and editors read: SARIF 2.1.0 of OASIS."""
    tool = {
        "name": "tfdbg",
        "semanticVersion": __version__,
        "rules": [{"id": name} for name in checked.filters],
    }
    results = [_result(each) for each in checked.findings]
    run = {"tool": {"driver": tool}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(finding: Finding) -> dict[str, Any]:
    why = f": {finding.reason['text']}" if finding.reason else ""
    text = f"{finding.headline}{why}."
    if finding.advice:
        text += f" {finding.advice}"
    found: dict[str, Any] = {"ruleId": finding.filter, "level": "error", "message": {"text": text}}
    if finding.line:
        place = {
            "artifactLocation": {"uri": _uri(finding.file)},
            "region": {"startLine": finding.line, "snippet": {"text": finding.text}},
        }
        found["locations"] = [{"physicalLocation": place}]
    return found


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else path.as_posix()


def _markdown(checked: CheckResult) -> str:
    """A summary for people, as ``$GITHUB_STEP_SUMMARY`` takes it."""
    names = ", ".join(checked.filters)
    if not checked.findings:
        return f"### tfdbg: no tensor passed {names}\n"
    parts = [f"### tfdbg: a tensor passed {names} in {checked.failed} run(s)\n"]
    for each in checked.findings:
        parts += [f"**{_plain(each.headline)}**\n", _fenced(each.story, "text")]
        for number, fix in enumerate(each.fixes, 1):
            parts.append(f"{number}. {_plain(fix['change'])}: {_plain(fix['then'])}\n")
        patch = next((fix["patch"] for fix in each.fixes if fix["patch"]), "")
        if patch:
            parts.append(_fenced(patch.splitlines(), "diff"))
    return "\n".join(parts)


def _plain(text: str) -> str:
    """A text in which Markdown finds no markup."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>#|&~" else char for char in text)


def _fenced(lines: Sequence[str], kind: str) -> str:
    longest = max(
        (len(part) for text in lines for part in text.split() if not part.strip("`")), default=0
    )
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{kind}", *lines, fence, ""])


#: The values of ``--check-format``.
CHECK_FORMATS: Mapping[str, Callable[[CheckResult], str]] = {
    "text": _text,
    "json": _json,
    "junit": _junit,
    "sarif": _sarif,
    "markdown": _markdown,
}
