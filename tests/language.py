"""Finds words that are not the field's, names that say nothing, missing docstrings and long sentences.

    python tests/language.py                  # counts of every package and room
    python tests/language.py ocp/explain      # every finding below a folder, or in a file
    python tests/language.py --messages       # every message of the product
    python tests/language.py --write          # lowers the ceilings of tests/language.txt to the present counts

A term has a pattern, the field's word for it, and the contexts in which the word is the right one. Names are judged where they are
defined; text is docstrings, comments, messages (string constants with a space) and pages.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CEILINGS = Path(__file__).with_name("language.txt")
PAGES = (ROOT / "README.md", *sorted((ROOT / "ocp" / "docs").rglob("*.md")))
MAX_MEAN_WORDS = 20  # of the sentences of a page


@dataclass(frozen=True)
class Term:
    """A word that the field does not use in this sense.

    pattern: where it is found, in lower case; better: the field's word; allowed: contexts within 60 characters in which it is the
    field's own word, with the reason.
    """

    pattern: str
    better: str
    allowed: str = ""
    reason: str = ""


TERMS = (
    Term(r"\brows?\b(?!:)", "constraint, equation, residual component",
         r"matri|table|column|csv|jacobian|array|line|factor|element|entr|rank|block|norm|a row\b|\bA\b|pivot|screen|file|key|"
         r"record|linear|sparse|hierarch|level|qp\b|kernel|stack|catalog|header|rules|first rows?|row weights|task|"
         r"full stretch|log\b|\bJ|dJ|twist|axes|contradict|inertia|"
         r"eliminat|\bY\b|of out\b|row k\b|\[M, w\]|stages\.rows|\brows? \[|\[[^\]]*\brows\b|depend on each other|redundant|repeat|"
         r"rows? of [A-Z]",
         "matrices, tables and files have rows, and so have constraint matrices, whose rank is that of their rows"),
    Term(r"\bheld\b", "zero-order hold; active",
         r"held (fixed|constant|at|by|out|down|back|to|fast)|lock|hand|piecewise|constant|['\"`]held",
         "a value or joint is held at something; a hand holds"),
    Term(r"\bladders?\b|\brungs?\b|\bscouts?\b", "cascade of initial guesses, stage, probe solve"),
    Term(r"\b(ways?|leads?|leading|led|goes|going|went) down\b", "descent direction, direction of negative curvature"),
    Term(r"\bbars?\b", "error bound", r"(four|five|three|six|slider|progress|scroll|colou?r|error|two|crank|torsion)[ -_]?bars?|"
         r"linkage|mechanism|chart|plot|as bars|bar:|figure|tool|rigid|steel|screen|pressure|progress|joint|metre|`bar",
         "linkages have bars, figures and screens, too"),
    Term(r"\bown sizes?\b|\bbeside (its|their) (own )?size\b|\bin (huge|tiny) numbers\b|\bparts of (its|their) size\b",
         "scale, magnitude"),
    Term(r"\bplaces?\b(?!:|, t\b)(?! (of|where|to|in) (a|the)? ?(goal|target))", "evaluation point, collocation point, location",
         r"(in|takes?|took|taking|into|out of) (the |its |their |that )?place|decimal|pick and place|places? (a|the|it|them)\b",
         "in place (memory), decimal places, to place something"),
    Term(r"\bmargins?\b(?!:)", "constraint tightening", r"plot|figure|axis|axes|page|safety|stability|pixel|width|css|panel|label",
         "figures and pages have margins"),
    Term(r"\bdrawn in\b(?! order)", "tightened"),
    Term(r"\bimplied\b|\bmarked\b", "redundant", r"pytest|marked (optional|slow|`)|marker", "tests have marks"),
    Term(r"\bstated\b", "given, formulated", r"as (it was )?stated|stated policy|stated by hand|units stated",
         "a problem is stated"),
    Term(r"\bslopes?\b|\bbends?\b|\bbent\b", "gradient; Hessian, curvature",
         r"ground|knee|leg|rail|road|hill|incline|terrain|plane|beam|armijo|directional|tanh|curve|spline|straight line|piecewise|"
         r"growth|log|order|elbow",
         "grounds, curves and log-log plots have slopes; knees and rails bend"),
    Term(r"\bpull(s|ed|ing)?\b(?! request)", "vector-Jacobian product",
         r"spring|cable|tendon|rope|gravity|force|contact|muscle|ground|push|band|adhes|weight|normal|wall|friction|wire",
         "springs, cables and contacts pull"),
    Term(r"\broads?\b", "independent method, cross-check", r"car|vehicle|wheel|bump|drive|traffic", "vehicles drive on roads"),
    Term(r"\bfreez(e|es|ing)\b", "resolved options", r"freeze\.yaml", "the name of a file that users have"),
    Term(r"\btold\b|\bsaid\b|\bspoken\b", "reported, named; messages"),
    Term(r"\bstand(s|ing)? still\b", "constant"),
    Term(r"\bhouse\b|\bupstairs\b|\bfloors?\b", "architecture, layer",
         r"np\.floor|ground|elastic|robot|falls?\b|foot|contact|wall|ceil|math|noise|rounding|plane|clear|level of|accuracy",
         "robots stand on floors; quantities have a floor"),
    Term(r"\brooms?\b", "package", r"room (for|to|left)|more room|test", "room for something"),
    Term(r"\bprogrammes?\b", "program"),
    Term(r"\bhard programs?\b|\bprograms? (is|are|was|were|that is|that are) hard\b",
         "ill-conditioned or slowly converging program"),
    Term(r"\b(comes?|came|coming) to nothing\b", "fails, gives no certified answer"),
    Term(r"\bno numbers?\b(?! of)", "NaN, not finite", r"parse|word|text|file|given?|read|result", "a word in a file is no number"),
    Term(r"\bto and fro\b", "back and forth, chatters"),
    Term(r"(?:^|\. )(what|whatever|that which)\b(?! is|'s)(?=[^?]*?\.)", "a sentence whose subject is a noun"),
)
#: names that are adjectives, participles or verbs of speech, and words of the table
NAME_PARTS = {
    "ladder": "cascade", "rung": "stage", "scout": "probe", "bend": "hessian", "bends": "hessians", "slope": "gradient",
    "slopes": "gradients", "pull": "vjp", "pulls": "vjp", "road": "method", "roads": "methods", "said": "messages",
    "floor": "layer", "floors": "layers", "house": "architecture", "room": "package", "rooms": "packages",
    "programme": "program", "programmes": "programs",
}
WHOLE_NAMES = {"held", "told", "given", "kept", "marked", "rooted", "loose", "late", "ask", "reach", "along", "bar", "bars",
               "place", "places", "words", "ways", "turns", "closes", "opens", "stated", "implied"}
BOUNDS = {"MOST", "LEAST", "NEAR", "WORSE", "TINY", "FAR", "FEW", "MANY", "HUGE", "SMALL", "LARGE", "LITTLE", "ENOUGH"}
#: definitions that keep their name, with the reason
EXCEPTIONS = {
    "ocp/reach/": "interval arithmetic of reachable sets: the field's word",
    "ocp/thresholds/explanation.py:Reach _REACH REACH": "the same",
    "dynamics/notation/": "names of textbooks, such as the house velocity beside the hybrid one",
    "dynamics/forces/:Place place places check_place": "public: the points of application of forces",
    "dynamics/redmax/deformable.py:place": "public: the point of application of a vertex's force",
    "dynamics/constraints/contacts.py:places": "public, and the key of files: world positions of contact points",
    "ocp/app/files/robot/:place places": "keys of files: footholds and contact points",
    "ocp/gaits/schedule.py:place": "the key of files: a foothold",
    "ocp/app/face/functions.py:places": "public argument of ocp.interpolate",
}


#: pieces of text that stay, by file, with the reason
TEXTS = {
    "ocp/app/pages/certificate_record.py:where the state passes a place": "a sentence of earlier versions, which is recognised",
    "ocp/shooting/engine/augmented.py:margin": "the slack margin of a relaxed barrier, a symbol of its formula",
    "ocp/nlp/scaling_text.py:; rows": "the format of the option: factors of columns and rows of the Jacobian",
    "ocp/integrators/tableaus.py:rows": "rows of the matrix of a Butcher tableau",
    "dynamics/redmax/deformable.py:Place": "a public class in an example",
    "dynamics/loops/tables.py:rows": "rows of a sparse triangular factor",
    "dynamics/notation/lagrange_first_kind.py:the rows": "rows of the system of equations",
}


#: methods that a base outside the packages documents
DOCUMENTED_ELSEWHERE = {
    "Callback": {"get_n_in", "get_n_out", "get_sparsity_in", "get_sparsity_out", "get_name_in", "get_name_out", "eval", "init",
                 "has_eval_buffer", "eval_buffer", "has_jacobian", "get_jacobian", "has_forward", "has_reverse", "get_forward",
                 "get_reverse", "has_jacobian_sparsity", "get_jacobian_sparsity"},
}


#: functions that make an error or a finding from text, and the method by which findings of files are recorded
MAKERS, RECORDS = {"refuse", "fault"}, "findings.add"


@dataclass(frozen=True)
class Hit:
    """One finding: where it is, the word with its surroundings, and the field's word."""

    path: str
    line: int
    kind: str
    found: str
    better: str


@cache
def compiled() -> tuple[tuple[re.Pattern[str], re.Pattern[str] | None, str], ...]:
    return tuple((re.compile(term.pattern, re.I), re.compile(term.allowed, re.I) if term.allowed else None, term.better)
                 for term in TERMS)


@cache
def any_term() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{term.pattern})" for term in TERMS), re.I)


def in_text(text: str, path: str, line: int, kind: str) -> Iterator[Hit]:
    """The words of a piece of text; `code` between backticks is not looked at."""
    prose = re.sub(r"``[^`]*``|`[^`]*`", lambda found: "`" + " " * (len(found[0]) - 2) + "`", text)
    if any_term().search(prose) is None:
        return
    for pattern, allowed, better in compiled():
        for found in pattern.finditer(prose):
            context = text[max(0, found.start() - 60): found.end() + 60]
            if (allowed is None or not allowed.search(context)) and not any(
                    path == file and word in context for file, word in (one.split(":", 1) for one in TEXTS)):
                yield Hit(path, line + text[: found.start()].count("\n"), kind, " ".join(context.split()), better)


def definitions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Names of functions, classes, fields, arguments and constants, where they are defined."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
            yield from ((one.arg, one.lineno) for one in (*node.args.args, *node.args.kwonlyargs))
        elif isinstance(node, ast.ClassDef):
            yield node.name, node.lineno
            yield from ((one.target.id, one.lineno) for one in node.body
                        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name))
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else \
            [statement.target] if isinstance(statement, ast.AnnAssign) else []
        yield from ((one.id, one.lineno) for one in targets if isinstance(one, ast.Name))


def in_names(tree: ast.Module, path: str) -> Iterator[Hit]:
    rooms = [one.split(":") for one in EXCEPTIONS if path.startswith(one.split(":")[0])]
    for name, line in definitions(tree):
        if any(len(one) == 1 or name in one[1].split() for one in rooms):
            continue
        if name.strip("_") in BOUNDS:
            yield Hit(path, line, "name", name, "what it bounds, and its unit")
            continue
        parts = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().strip("_").split("_")
        if parts[0] in WHOLE_NAMES and len(parts) == 1:
            yield Hit(path, line, "name", name, "the quantity or the action")
        yield from (Hit(path, line, "name", name, NAME_PARTS[part]) for part in parts if part in NAME_PARTS)


@cache
def documented() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """(bases, methods with a docstring) of the classes of both packages, by the name of the class."""
    bases: dict[str, set[str]] = {}
    methods: dict[str, set[str]] = {}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
                bases.setdefault(node.name, set()).update(ast.unparse(base).rpartition(".")[2] for base in found)
                methods.setdefault(node.name, set()).update(
                    one.name for one in node.body if isinstance(one, ast.FunctionDef) and ast.get_docstring(one))
    return bases, methods


def inherits(name: str, method: str) -> bool:
    """Whether a base of the class documents the method, as `inspect.getdoc` and the website look it up."""
    bases, methods = documented()
    return any(method in methods.get(base, DOCUMENTED_ELSEWHERE.get(base, set())) or inherits(base, method)
               for base in bases.get(name, ()))


def without_docstring(tree: ast.Module, path: str) -> Iterator[Hit]:
    """Public functions, and public methods of public classes, without a docstring of their own or of a base."""
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_") else [node]
        for one in inside:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and not one.name.startswith("_") \
                    and ast.get_docstring(one) is None \
                    and not (isinstance(node, ast.ClassDef) and inherits(node.name, one.name)):
                yield Hit(path, one.lineno, "docstring", one.name, "a docstring, or a private name")


def in_module(path: Path) -> Iterator[Hit]:
    """Everything found in a Python file."""
    here, source = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    yield from in_names(tree, here)
    yield from without_docstring(tree, here)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from in_text(token.string.lstrip("#: "), here, token.start[0], "text")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield from in_text(node.value, here, node.lineno, "text")


def prose(page: str) -> str:
    """The text of a page, without code, tables, directives and the addresses of links."""
    page = re.sub(r"\A---\n.*?\n---\n", "", page, flags=re.S)
    page = re.sub(r"^(```|:::).*?^\1 *$|^\|[^\n]*$|^\$\$.*?\$\$ *$", "", page, flags=re.M | re.S)
    page = re.sub(r"\$[^$]+\$", "an expression", page)
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", page)


def sentences(page: str) -> list[str]:
    """The sentences of a page; an item of a list, a heading and a paragraph end one."""
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*] |\d+\. |#))", prose(page))
    text = [" ".join(block.split()).lstrip("#-* ") for block in blocks if not block.lstrip().startswith("#")]
    return [one for block in text for one in re.split(r"(?<=[.!?:;])\s+(?=[A-Z`*\d\[(])|; ", block) if len(one.split()) > 2]


def mean_words(page: str) -> float:
    """The average length of the sentences of a page, in words."""
    found = sentences(page)
    return sum(len(one.split()) for one in found) / max(1, len(found))


def template(node: ast.expr) -> str:
    """A message as it stands in the source: values of an f-string between braces, joined parts in one line."""
    if isinstance(node, ast.JoinedStr):
        return "".join(template(one) for one in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    if isinstance(node, ast.BinOp):
        return template(node.left) + template(node.right)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else f"{{{ast.unparse(node)}}}"


def worded(call: ast.Call) -> str:
    """The text among the arguments of a call; "" where they are only names and values."""
    texts = (one for one in (*call.args, *(keyword.value for keyword in call.keywords))
             if any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(one)))
    return " | ".join(template(one) for one in texts)


def messages(below: str = "") -> Iterator[tuple[str, int, str]]:
    """(file, line, text) of the messages of the product: of raised errors, of refusals, of findings in files, and
    of everything in ocp/app/sentences."""
    for path in modules(below):
        here = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = [node.exc if isinstance(node, ast.Raise) else node for node in ast.walk(tree) if isinstance(node, ast.Raise) or
                 isinstance(node, ast.Call) and (getattr(node.func, "id", getattr(node.func, "attr", "")) in MAKERS or
                                                 ast.unparse(node.func).endswith(RECORDS))]
        found = {id(call): (here, call.lineno, worded(call)) for call in calls if isinstance(call, ast.Call)}
        if here.startswith("ocp/app/sentences/"):
            inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
                     for part in ast.walk(node) if part is not node}
            inner |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            found |= {id(node): (here, node.lineno, template(node)) for node in ast.walk(tree) if id(node) not in inner
                      and isinstance(node, ast.JoinedStr | ast.Constant) and " " in template(node)}
        yield from sorted(one for one in found.values() if one[2])


def package(path: str) -> str:
    """The room that a file counts for: two levels, three below ocp/app."""
    parts = path.removesuffix(".py").split("/")
    return "/".join(parts[: 3 if parts[:2] == ["ocp", "app"] else 2])


def modules(below: str = "") -> list[Path]:
    """The Python files of both packages, or those below a folder."""
    found = [path for name in ("dynamics", "ocp") for path in sorted((ROOT / name).rglob("*.py"))]
    return [path for path in found if path.relative_to(ROOT).as_posix().startswith(below)]


def findings(below: str = "") -> list[Hit]:
    """All findings in modules and pages."""
    code = [hit for path in modules(below) for hit in in_module(path)]
    pages = [path for path in PAGES if path.relative_to(ROOT).as_posix().startswith(below)]
    return code + [hit for path in pages for hit in in_text(prose(path.read_text(encoding="utf-8")),
                                                            path.relative_to(ROOT).as_posix(), 0, "text")]


def counts() -> dict[str, Counter[str]]:
    """Findings by room and kind."""
    made: dict[str, Counter[str]] = {}
    for hit in findings():
        made.setdefault("ocp/docs" if hit.path.endswith(".md") else package(hit.path), Counter())[hit.kind] += 1
    return made


def ceilings() -> dict[str, Counter[str]]:
    """The largest counts that are allowed now, by room."""
    lines = [line.split() for line in CEILINGS.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    return {room: Counter(text=int(text), name=int(name), docstring=int(missing)) for room, text, name, missing in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("below", nargs="?", default="")
    parser.add_argument("--messages", action="store_true", help="list every message of the product")
    parser.add_argument("--write", action="store_true", help="write the present counts as ceilings")
    given = parser.parse_args()
    if given.messages:
        print("\n".join(f"{path}:{line}: {' '.join(text.split())}" for path, line, text in messages(given.below)))
        return
    if given.below:
        for hit in findings(given.below):
            print(f"{hit.path}:{hit.line}: {hit.kind}: {hit.found}  -> {hit.better}")
        return
    found = counts()
    lines = [f"{room} {own['text']} {own['name']} {own['docstring']}" for room, own in sorted(found.items())]
    total = sum(found.values(), Counter())
    print("\n".join([*lines, f"all {total['text']} {total['name']} {total['docstring']}"]))
    for path in PAGES:
        print(f"{mean_words(path.read_text(encoding='utf-8')):5.1f} words a sentence in {path.relative_to(ROOT)}")
    if given.write:
        head = "# room, words in text, names, functions without docstring: at most so many (python tests/language.py --write)\n"
        CEILINGS.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
