"""Twenty thousand damaged inputs through the commands, in one process where that is safe: each ends in a verdict or in words.

    python tests/benchmarks/damaged_inputs.py [--first 0] [--count 20000] [--log FILE]

Files of the gallery, robots, tables and meshes, each with one to three mutations (``tests/support/mutations.py``), are given to
check, show, robot, init, simulate, ik, explain and solve. Input k is the same in every run. A worker takes them one after another;
one that dies, or stays in an input for more than STUCK_S, is replaced by another, which goes on behind it. Writes the counts by
kind, command and outcome to results/benchmarks/damaged_inputs.csv and .md; what ends with exit code 3 is printed with its place.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "benchmarks")]
from mutations import mutate  # noqa: E402  # the repository's own modules need the path above
from result_tables import write_page, write_table  # noqa: E402

#: seconds of the processor that a command may take before it is stopped, seconds before its process is ended; bytes of memory
LONG_S, STUCK_S, MEMORY = 10, 90, 6 << 30
PROBLEMS = ROOT / "problems"
NAMES = ("block_move", "cartpole_swingup", "goddard_arcs", "slip_hopper", "acrobot", "bouncing_ball", "brachistochrone",
         "gear_ratio",
         "four_bar", "rail_arm_linkage", "car_obstacles", "cartpole_sampled", "chain_on_wall", "monopod_hopping", "tendon_finger",
         "redmax/chain", "redmax/axes", "redmax/cable", "redmax/thrown", "redmax/springs", "redmax/stops", "redmax/loop",
         "mpc/cartpole_balance", "ik/ur5_pose", "wbc/planar_arm_priorities")
ROBOTS = ("acrobot", "pendulum", "monopod", "quadrotor", "four_bar", "rabbit", "box")
MJCF = """<mujoco model="cart"><compiler angle="radian"/><asset><mesh name="part" file="part.stl"/></asset>
<worldbody><geom type="plane" size="2 2 .1"/><body name="cart"><joint name="slide" type="slide" axis="1 0 0" range="-2 2"/>
<geom type="box" size=".2 .1 .1" mass="1"/><body name="pole"><joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/>
<geom type="capsule" fromto="0 0 0 0 0 .5" size=".02" mass=".1"/><geom type="mesh" mesh="part"/><site name="tip" pos="0 0 .5"/>
</body></body></worldbody>
<actuator><motor name="push" joint="slide" gear="10" ctrlrange="-3 3"/></actuator>
<keyframe><key name="home" qpos="0.1 0.2"/></keyframe></mujoco>"""
MESHED = """<robot name="arm"><link name="base"/><link name="upper">
<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
<visual><origin xyz="0 0 0.5"/><geometry><mesh filename="MESH" scale="0.5 0.5 1"/></geometry></visual></link>
<joint name="hinge" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""
SOLID = """name: Solid
system:
  bodies: {b: {joint: {kind: revolute, axis: [0, 1, 0]}, density: 1000, shapes: [{mesh: MESH}]}}
phase: {duration: 1, start: {joints: {b: 0}, rest: true}, costs: []}
"""
TABLE = """name: Table
system:
  states: {x: m, v: m/s}
  controls: {u: N}
  dynamics: {x: v, v: u - drag(v)}
tables: {drag: drag.csv}
phase: {duration: 1, start: {x: 0, v: 0}, final: {x: 1, v: 0}, costs: [{name: effort, running: u**2}]}
"""
DRAG = "v,drag\n" + "".join(f"{v},{0.1 * v * abs(v):.4g}\n" for v in range(-5, 6))
#: commands by kind of file, the cheap ones more often
COMMANDS = {"yaml": ("check",) * 6 + ("show",) * 3 + ("simulate",) * 2 + ("explain", "solve", "--set"), "ik": ("check", "ik"),
            "mpc": ("check", "show"), "wbc": ("check", "show"), "urdf": ("robot", "robot", "init"),
            "mjcf": ("robot", "robot", "init"),
            "mesh": ("robot", "check"), "csv": ("check", "check", "show", "solve")}


def sources(folder: Path) -> list[tuple[str, str, bytes]]:
    """(kind, path below the folder, contents) of all inputs; what goes beside them is written."""
    import trimesh

    for inner in ("", "mpc", "ik", "wbc", "redmax"):
        shutil.copytree(PROBLEMS / "models", folder / inner / "models")
    found = []
    for name in NAMES:
        kind = name.split("/")[0] if name.split("/")[0] in COMMANDS else "yaml"
        found.append((kind, f"{name}.yaml", (PROBLEMS / f"{name}.yaml").read_bytes()))
    found += [("urdf", f"{name}.urdf", (PROBLEMS / "models" / f"{name}.urdf").read_bytes()) for name in ROBOTS]
    part = trimesh.creation.box(extents=(0.1, 0.1, 0.2))
    part.export(folder / "part.stl")
    found.append(("mjcf", "cart.xml", MJCF.encode()))
    for ending in ("stl", "obj", "ply", "glb", "dae"):
        data = part.export(file_type=ending)
        found.append(("mesh", f"mesh.{ending}", data if isinstance(data, bytes) else data.encode()))
    return [*found, ("csv", "drag.csv", DRAG.encode())]


def arguments(command: str, kind: str, path: Path, rng: random.Random) -> list[str]:
    """The command line about a damaged file; a table and a mesh are spoken of by a file beside them."""
    target = path
    if kind == "csv":
        target = path.with_name("table.yaml")
        target.write_text(TABLE)
    if kind == "mesh":
        target = path.with_name("meshed.urdf" if command == "robot" else "solid.yaml")
        target.write_text((MESHED if command == "robot" else SOLID).replace("MESH", path.name))
    out = str(path.parent / "out")
    if command == "--set":
        from mutations import ODD_VALUES

        keys = ("phase.duration", "phase.costs", "solve.method", "solve.time_limit", "accept.violation", "name", "phase.start",
                "a.b[0]",
                "solve.collocation.intervals", "system.gravity", "system.states", "simulate.dt", "parameters")
        return ["check", str(target), "--set", f"{rng.choice(keys)}={rng.choice(ODD_VALUES)}"]
    more: dict[str, list[str]] = {
        "robot": ["--picture", f"{out}.png"], "init": ["--out", f"{out}.yaml", "--overwrite", *rng.choice(
            ([], ["--pose"], ["--ik"], ["--mpc"], ["--wbc"], ["--root", "free_flyer"]))],
        "simulate": ["--until", "0.05", "--quick", "-q", "--out", out, "--overwrite", "--time-limit", "2"],
        "ik": ["-q", "--out", out, "--overwrite", "--time-limit", "1"], "explain": ["-q", "--time-limit", "1"],
        "solve": ["-q", "--out", out, "--overwrite", "--time-limit", "0.5"]}
    return [command, str(target), *more.get(command, [])]


class Slow(BaseException):
    """A command took too long."""


def ended(words: list[str]) -> dict[str, Any]:
    """The outcome of a command, as its exit code or in a word; of a fault, what was raised where."""
    from ocp.app import cli

    def told(error: Exception) -> int:
        raised.append(error)
        return before(error)

    def slow(number: int, frame: Any) -> None:
        raise Slow

    raised: list[Exception] = []
    before, cli._report = cli._report, told
    was = signal.signal(signal.SIGPROF, slow)
    out, err = io.StringIO(), io.StringIO()
    signal.setitimer(signal.ITIMER_PROF, LONG_S)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.guarded(lambda: cli.app(words, exit_on_error=False, print_error=False))
        outcome: str | int = code
    except Slow:
        outcome = "slow"
    except SystemExit as stop:
        outcome = f"exit {stop.code}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, was)
        cli._report = before
    found: dict[str, Any] = {"outcome": outcome}
    if outcome == 3 and raised:
        inner = traceback.extract_tb(raised[-1].__traceback__)
        own = [f for f in inner if str(ROOT) in f.filename] or inner
        found["raised"] = f"{type(raised[-1]).__name__}: {str(raised[-1])[:150]}"
        found["at"] = f"{own[-1].filename.removeprefix(str(ROOT) + '/')}:{own[-1].lineno}"
    elif outcome == 2 and not re.match(r"error: ", err.getvalue()):
        found["raised"] = f"no error is told: {err.getvalue()[:150]!r}"
    return found


def work(first: int, end: int, log: Path) -> None:
    """The inputs of these numbers, one line in the log before each and one after it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory() as place, log.open("a") as record:
        folder = Path(place)
        os.chdir(folder)
        known = sources(folder)
        for k in range(first, end):
            rng = random.Random(f"damaged {k}")
            kind, name, data = known[k % len(known)]
            command = rng.choice(COMMANDS[kind])
            path = folder / name
            path.write_bytes(mutate(data, "xml" if kind in ("urdf", "mjcf") else kind if kind in ("mesh", "csv") else "yaml", rng))
            begin = time.perf_counter()
            row: dict[str, Any] = {"k": k, "kind": kind, "command": command, "file": name}
            print(json.dumps(row), file=record, flush=True)
            row |= ended(arguments(command, kind, path, rng)) | {"seconds": round(time.perf_counter() - begin, 3)}
            print(json.dumps(row), file=record, flush=True)
            path.write_bytes(data)


def run(first: int, count: int, log: Path) -> None:
    """All inputs, by one worker after another."""
    at = first
    while at < first + count:
        worker = subprocess.Popen([sys.executable, __file__, "--worker", "--first", str(at), "--count", str(first + count - at),
                                   "--log", str(log)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen, since = -1, time.monotonic()
        while worker.poll() is None:
            time.sleep(1.0)
            size = log.stat().st_size if log.exists() else 0
            if size != seen:
                seen, since = size, time.monotonic()
            elif time.monotonic() - since > STUCK_S:
                worker.kill()
        last = next(reversed(list(rows(log))), {"k": at - 1, "outcome": ""})
        if "outcome" not in last:
            with log.open("a") as record:
                how = "stuck" if worker.returncode == -9 else f"died {worker.returncode}"
                print(json.dumps(last | {"outcome": how}), file=record)
        elif worker.returncode and last["k"] < at:
            raise SystemExit(f"the worker ends with {worker.returncode} at once")
        at = last["k"] + 1


def rows(log: Path) -> Iterator[dict[str, Any]]:
    """Lines of the log."""
    for line in log.read_text().splitlines() if log.exists() else ():
        yield json.loads(line)


WORDS = {"0": "done", "1": "told that it is not solved", "2": "refused in words", "3": "a fault", "slow": f"ended after {LONG_S} s",
         "stuck": "stuck"}


def written(log: Path) -> None:
    """The table and the page."""
    ended_rows = {row["k"]: row for row in rows(log) if "outcome" in row}
    counts = Counter((row["kind"], row["command"], str(row["outcome"])) for row in ended_rows.values())
    outcomes = sorted({outcome for *_, outcome in counts})
    table = [{"kind": kind, "command": command, **{o: counts[kind, command, o] for o in outcomes}}
             for kind, command in sorted({key[:2] for key in counts})]
    folder = ROOT / "results" / "benchmarks"
    write_table(folder / "damaged_inputs.csv", table)
    total = Counter(str(row["outcome"]) for row in ended_rows.values())
    write_page(folder / "damaged_inputs.md", [
        "# Damaged inputs", "", "Files of the gallery, robots, tables and meshes with one to three seeded mutations, given to the "
        "commands: `tests/benchmarks/damaged_inputs.py`.", "", f"{len(ended_rows)} inputs: " + ", ".join(
            f"{n} {WORDS.get(o, o)}" for o, n in total.most_common()) + ".", "",
        "| kind | command | " + " | ".join(WORDS.get(o, o) for o in outcomes) + " |", "|---|---|" + "---:|" * len(outcomes),
        *(f"| {row['kind']} | {row['command']} | " + " | ".join(str(row[o]) for o in outcomes) + " |" for row in table)])
    faults = Counter((row["raised"], row.get("at", "")) for row in ended_rows.values() if "raised" in row)
    for (raised, at), n in faults.most_common():
        print(f"{n:5d}  {at}  {raised}  e.g. {next(k for k, row in ended_rows.items() if row.get('raised') == raised)}")
    print(dict(total))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--log", type=Path, default=Path(tempfile.gettempdir()) / "damaged_inputs.jsonl")
    parser.add_argument("--worker", action="store_true")
    parser.add_argument("--table", action="store_true", help="only write the table of a log")
    given = parser.parse_args()
    if given.worker:
        work(given.first, given.first + given.count, given.log)
        return
    if not given.table:
        run(given.first, given.count, given.log)
    written(given.log)


if __name__ == "__main__":
    main()
