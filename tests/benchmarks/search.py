"""Questions of newcomers to the website's own search, in a browser without a window: ranks and seconds.

    python tests/benchmarks/search.py SITE      (python -m ocp.app.documentation SITE builds it)
"""

import argparse
import sys
from pathlib import Path

sys.path += [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "support")]

from test_questions import QUESTIONS, asked

OUT = Path(__file__).resolve().parents[2] / "results" / "benchmarks" / "search.md"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    site = parser.parse_args().site.resolve()
    lines = ["# Questions of newcomers", "",
             "Each question is typed into the search of the website, opened as files without a network. Seconds count from the",
             "start of the browser to the list of results. `python tests/benchmarks/search.py SITE` makes this table.", "",
             "| question | page and heading | rank | results | s |", "|---|---|---|---|---|"]
    for query, page, heading in QUESTIONS:
        rank, count, seconds = asked(site, query, page)
        lines.append(f"| {query} | `{page}`: {heading} | {rank} | {count} | {seconds:.1f} |")
        print(lines[-1], flush=True)
    OUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
