"""Two hundred times Ctrl-C, at random moments of solve, resume, mpc, robot and of the pictures at the end: no answer is lost.

    python tests/benchmarks/interrupts.py [--count 200] [--seed 0]

Every command runs in a process of its own, forked off one that has loaded everything, and gets the signal at a moment drawn evenly
from the time that it takes without one. Afterwards there must be no traceback, no folder half written, and: where the command said
that it had nothing to keep, nothing; else a run that can be read; where it had told its verdict, that of the run; and where it went
on from an earlier run, that one or a later. Writes results/benchmarks/interrupts.csv and .md.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "benchmarks")]
from result_tables import write_page, write_table  # noqa: E402  # the repository's own modules need the path above

PROBLEMS = ROOT / "problems"
QUICK = ("--set", "mpc.duration=0.3", "--set", "mpc.horizon=0.4")
#: name, how often of ten, the words behind "ocp"; OUT is the folder that is written, RUN one that was interrupted before
CASES: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("solve a small problem", 3, ("solve", str(PROBLEMS / "block_move.yaml"), "--out", "OUT")),
    ("solve a swing-up", 2, ("solve", str(PROBLEMS / "cartpole_swingup.yaml"), "--out", "OUT")),
    ("resume", 2, ("resume", "RUN")),
    ("mpc", 2, ("mpc", str(PROBLEMS / "mpc" / "cartpole_balance.yaml"), *QUICK, "--out", "OUT")),
    ("robot", 1, ("robot", str(PROBLEMS / "models" / "acrobot.urdf"), "--picture", "OUT/robot.png")))
NOTHING = "interrupted before there was anything to keep"
STUCK_S = 120.0


def run(words: list[str], said: Path, after: float | None) -> tuple[int, float]:
    """The exit code of a command, interrupted after so many seconds, and the seconds that it took; -1: it did not end."""
    sys.stdout.flush()
    begin = time.perf_counter()
    child = os.fork()
    if child == 0:
        handle = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from ocp.app import cli

        code = 70
        try:
            cli.main(words)
        except SystemExit as stop:
            code = int(stop.code or 0)
        except KeyboardInterrupt:  # between the shell and the command
            code = 130
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sent = False
    while time.perf_counter() - begin < STUCK_S:
        if after is not None and not sent and time.perf_counter() - begin >= after:
            os.kill(child, signal.SIGINT)
            sent = True
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status), time.perf_counter() - begin
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1, STUCK_S


def judged(words: list[str], place: Path, folder: Path, code: int, said: str) -> str:
    """What is left, in a word; what is wrong begins with LOST."""
    from ocp.app.pages.folders import is_run
    from ocp.app.pages.results import read_run, read_summary

    if code not in (0, 1, 130) or "Traceback" in said or "bug in lieocp" in said:
        return f"LOST: exit code {code}, {said[-300:]!r}"
    if left := [p.name for p in folder.iterdir() if p.name.startswith(".")]:
        return f"LOST: half written {left}"
    command = words[0]
    if command == "robot":
        whole = place.is_file() and place.read_bytes().endswith(b"IEND\xaeB`\x82")
        return "done" if whole and code == 0 else "nothing yet" if not place.exists() and code else "LOST: half a picture"
    if NOTHING in said or code == 130:
        return "nothing yet" if command == "resume" or not place.exists() else f"LOST: {place} is left"
    if command == "mpc":
        from ocp.app.mpc.folder import FORMAT

        return ("done" if code == 0 else "a part") if is_run(place, FORMAT) else f"LOST: no run in {place}"
    if not is_run(place) and not (place / "checkpoint.npz").is_file():
        return f"LOST: no run in {place}"
    if not is_run(place):
        return "a checkpoint"
    verdict = re.search(r": (not )?certified", said)
    kept, summary = read_run(place), read_summary(place)
    if verdict and bool(verdict[1]) == summary["ok"]:
        return f"LOST: told {verdict[0]!r}, kept {summary['ok']}"
    if not len(kept.arrays["t"]):
        return "LOST: no motion"
    return "certified" if summary["ok"] else "a run to go on from"


def one(words: tuple[str, ...], folder: Path, made: Path, after: float | None) -> tuple[str, float]:
    """The outcome of a case, and its seconds."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    place = folder / "run"
    if "RUN" in words:
        shutil.copytree(made, place)
    given = [word.replace("OUT/robot.png", str(folder / "robot.png")).replace("OUT", str(place)).replace("RUN", str(place))
             for word in words]
    if words[0] == "robot":
        place = folder / "robot.png"
    code, seconds = run(given, folder.parent / "said.txt", after)
    return judged(given, place, folder, code, (folder.parent / "said.txt").read_text(errors="replace")), seconds


def warm(made: Path, said: Path) -> None:
    """Load what commands load, and leave a run that was interrupted."""
    from ocp.app import cli

    for words in (["solve", str(PROBLEMS / "cartpole_swingup.yaml"), "--out", str(made), "-q", "--set",
                   "solve.collocation.max_iterations=3"],
                  ["mpc", str(PROBLEMS / "mpc" / "cartpole_balance.yaml"), *QUICK, "--out", str(made.with_name("warm")),
                   "-q"],
                  ["robot", str(PROBLEMS / "models" / "acrobot.urdf"), "--picture", str(made.with_name("warm.png"))]):
        keep = os.dup(1)
        handle = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(handle, 1)
        cli.guarded(lambda words=words: cli.app(words, exit_on_error=False, print_error=False))  # type: ignore[misc]
        sys.stdout.flush()
        os.dup2(keep, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng, rows = random.Random(given.seed), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        made, folder = Path(place) / "made", Path(place) / "case"
        warm(made, Path(place) / "said.txt")
        lengths = {name: one(words, folder, made, None) for name, _, words in CASES}
        print({name: (outcome, round(seconds, 2)) for name, (outcome, seconds) in lengths.items()}, flush=True)
        drawn = [case for case in CASES for _ in range(case[1])]
        for k in range(given.count):
            name, _, words = drawn[k % len(drawn)]
            after = rng.uniform(0.0, lengths[name][1])
            outcome, seconds = one(words, folder, made, after)
            rows.append({"k": k, "case": name, "after_s": round(after, 3), "seconds_s": round(seconds, 3), "outcome": outcome})
            if outcome.startswith("LOST"):
                print(rows[-1], flush=True)
            written(rows, lengths, given.seed)
    print(Counter(row["outcome"].split(":")[0] for row in rows))


def written(rows: list[dict[str, Any]], lengths: dict[str, tuple[str, float]], seed: int) -> None:
    """The table and the page."""
    folder = ROOT / "results" / "benchmarks"
    write_table(folder / "interrupts.csv", rows)
    outcomes = sorted({row["outcome"].split(":")[0] for row in rows})
    counts = Counter((row["case"], row["outcome"].split(":")[0]) for row in rows)
    slowest = max(row["seconds_s"] - row["after_s"] for row in rows)
    write_page(folder / "interrupts.md", [
        "# Interrupts", "", f"Ctrl-C at {len(rows)} random moments (seed {seed}) of commands, a process each: "
        "`tests/benchmarks/interrupts.py`. At most "
        f"{slowest:.1f} s from the signal to the end of the process, on a shared core.", "",
        "| case | takes [s] | " + " | ".join(outcomes) + " |", "|---|---:|" + "---:|" * len(outcomes),
        *(f"| {name} | {lengths[name][1]:.1f} | " + " | ".join(str(counts[name, o]) for o in outcomes) + " |"
          for name, _, _ in CASES if any(row["case"] == name for row in rows))])


if __name__ == "__main__":
    main()
