"""Runs the processes of one distributed program at the same time."""

import subprocess


def together(starts):
    """What each has printed on stdout.

    Args:
        starts: command and environment of each process.
    """
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen(command, env=environment, text=True, stdout=pipe, stderr=pipe)
        for command, environment in starts
    ]
    try:
        done = [each.communicate(timeout=240) for each in running]
    finally:
        for each in running:
            each.kill()
    assert [each.returncode for each in running] == [0] * len(running), done
    return [out for out, _ in done]


def own(out):
    """The lines of the program itself."""
    return [line for line in out.splitlines() if line.startswith("program:")]
