"""Scalar graphs as text of LLVM's intermediate language, one operation a line.

A tape writes its slots again and again. Here every value gets a name of its own, so that LLVM keeps it in a register as long as it
can, and nothing but inputs and results is in memory. Every operation is the one of CasADi's virtual machine, rounded
alike: nothing is contracted, reordered or assumed finite.
"""

from __future__ import annotations

import struct

import casadi as ca

from dynamics.kernels.library import ONE, TWO

#: Operations in a basic block: the time of LLVM's fast register allocator grows with the square of a block's length.
BLOCK = 1000
#: So many neighbouring zeros of an output are cleared together.
MIN_ZEROS = 8

_ARITHMETIC = {ca.OP_ADD: "fadd double {a}, {b}", ca.OP_SUB: "fsub double {a}, {b}", ca.OP_MUL: "fmul double {a}, {b}",
               ca.OP_DIV: "fdiv double {a}, {b}", ca.OP_NEG: "fneg double {a}", ca.OP_SQ: "fmul double {a}, {a}",
               ca.OP_TWICE: "fadd double {a}, {a}", ca.OP_INV: "fdiv double 1.0, {a}",
               ca.OP_SQRT: "call double @llvm.sqrt.f64(double {a})", ca.OP_FABS: "call double @llvm.fabs.f64(double {a})",
               ca.OP_COPYSIGN: "call double @llvm.copysign.f64(double {a}, double {b})"}
_TRUTH = "select i1 {p}, double 1.0, double 0.0"
# Several lines, each with a name: p is that of the line before, q of the one before that.
_COMPARED = {ca.OP_LT: ("fcmp olt double {a}, {b}", _TRUTH), ca.OP_LE: ("fcmp ole double {a}, {b}", _TRUTH),
             ca.OP_EQ: ("fcmp oeq double {a}, {b}", _TRUTH), ca.OP_NE: ("fcmp une double {a}, {b}", _TRUTH),
             ca.OP_NOT: ("fcmp oeq double {a}, 0.0", _TRUTH),
             ca.OP_IF_ELSE_ZERO: ("fcmp une double {a}, 0.0", "select i1 {p}, double {b}, double 0.0"),
             # what is not NaN, and of two zeros the first (C leaves that open, and so do versions of CasADi)
             ca.OP_FMIN: ("fcmp olt double {b}, {a}", "fcmp uno double {a}, {a}", "or i1 {p}, {q}",
                          "select i1 {p}, double {b}, double {a}"),
             ca.OP_FMAX: ("fcmp ogt double {b}, {a}", "fcmp uno double {a}, {a}", "or i1 {p}, {q}",
                          "select i1 {p}, double {b}, double {a}"),
             # the number itself where it is neither below nor above zero: NaN, and zeros with their sign
             ca.OP_SIGN: ("fcmp olt double {a}, 0.0", "select i1 {p}, double -1.0, double {a}",
                          "fcmp ogt double {a}, 0.0", "select i1 {p}, double 1.0, double {q}"),
             ca.OP_AND: ("fcmp une double {a}, 0.0", "select i1 {p}, double {b}, double 0.0",
                         "fcmp une double {p}, 0.0", _TRUTH),
             ca.OP_OR: ("fcmp une double {a}, 0.0", "select i1 {p}, double 1.0, double {b}",
                        "fcmp une double {p}, 0.0", _TRUTH)}


def _forms() -> dict[int, tuple[int, str]]:
    """The line of each operation, and its arguments: 1, 2, or 3 for one argument twice."""
    single = dict(_ARITHMETIC)
    single |= {op: f"call double @{name}(double {{a}})" for op, name in ONE.items()}
    single |= {op: f"call double @{name}(double {{a}}, double {{b}})" for op, name in TWO.items()}
    return {op: (2 if "{b}" in form else form.count("{a}") * 2 - 1,
                 "%%%d = " + form.replace("{a}", "%s").replace("{b}", "%s")) for op, form in single.items()}


_FORMS = _forms()
KNOWN = frozenset(_FORMS.keys() | _COMPARED.keys() | {ca.OP_INPUT, ca.OP_OUTPUT, ca.OP_CONST, ca.OP_LIFT, ca.OP_ASSIGN})
"""Operations that can be written."""


def declarations() -> str:
    """Functions and symbols that a text refers to."""
    calls = [f"declare double @{name}(double)" for name in sorted(set(ONE.values()))]
    calls += [f"declare double @{name}(double, double)" for name in sorted(set(TWO.values()))]
    calls += [f"declare double @llvm.{name}.f64(double)" for name in ("sqrt", "fabs")]
    calls += ["declare double @llvm.copysign.f64(double, double)", "declare ptr @memset(ptr, i32, i64)"]
    return "\n".join(calls)


def longest_output(function: ca.Function) -> int:
    """Numbers of the longest output: the length of ``w`` that the code of a function needs."""
    return max(map(function.numel_out, range(function.n_out())), default=0)


def written(function: ca.Function, symbol: str) -> str:
    """A definition of ``i32 symbol(arg, res, iw, w, mem)``, CasADi's calling convention, of a dense SX function.

    No address need be given: inputs without one are zero, and results without one go to ``w``, see `longest_output`.
    """
    out = _pointers(function, symbol)
    results, slots, n = _Results(out), [""] * function.sz_w(), 0
    read = "%%%d = getelementptr double, ptr %%a%d, i64 %d\n%%%d = load double, ptr %%%d"
    is_input, is_output, is_constant = int(ca.OP_INPUT), int(ca.OP_OUTPUT), int(ca.OP_CONST)
    for k in range(function.n_instructions()):
        op, target, source = function.instruction_id(k), function.instruction_output(k), function.instruction_input(k)
        if k and k % BLOCK == 0:
            out.append(f"br label %b{k}\nb{k}:")
        if op in _FORMS:
            kind, line = _FORMS[op]
            out.append(line % (n, slots[source[0]], *([slots[source[-1]]] if kind > 1 else [])))
            slots[target[0]] = f"%{n}"
            n += 1
        elif op == is_output:
            n = results.put(n, target[0], target[1], slots[source[0]])
        elif op == is_constant:
            slots[target[0]] = f"0x{struct.unpack('<Q', struct.pack('<d', function.instruction_constant(k)))[0]:016X}"
        elif op == is_input:
            n = results.clear(n)
            out.append(read % (n, *source, n + 1, n))
            slots[target[0]] = f"%{n + 1}"
            n += 2
        elif op in _COMPARED:
            p = q = ""
            for line in _COMPARED[op]:
                out.append(f"%{n} = " + line.format(a=slots[source[0]], b=slots[source[-1]], p=p, q=q))
                p, q, n = f"%{n}", p, n + 1
            slots[target[0]] = p
        else:  # OP_ASSIGN, OP_LIFT
            slots[target[0]] = slots[source[0]]
    results.clear(n)
    out.append("ret i32 0\n}")
    return "\n".join(out)


def _pointers(function: ca.Function, symbol: str) -> list[str]:
    """The first lines of a definition: names %a0 ... and %r0 ... for where its inputs and results lie."""
    longest = max(map(function.numel_in, range(function.n_in())), default=0)
    zeros = f"[{longest + 1} x double]"
    out = [f"@{symbol}.zeros = internal global {zeros} zeroinitializer",
           f"define i32 @{symbol}(ptr %arg, ptr %res, ptr %iw, ptr %w, i32 %mem) nounwind {{",
           "entry:",
           f"%zeros = getelementptr {zeros}, ptr @{symbol}.zeros, i64 0, i64 0"]
    for letter, count, base, other in (("a", function.n_in(), "arg", "zeros"), ("r", function.n_out(), "res", "w")):
        for i in range(count):
            out.append(f"%{letter}p{i} = getelementptr ptr, ptr %{base}, i64 {i}\n"
                       f"%{letter}v{i} = load ptr, ptr %{letter}p{i}\n"
                       f"%{letter}n{i} = icmp eq ptr %{letter}v{i}, null\n"
                       f"%{letter}{i} = select i1 %{letter}n{i}, ptr %{other}, ptr %{letter}v{i}")
    return out


class _Results:
    """Writes results to their addresses; zeros wait until their neighbours are known. Both methods take and give the next free
    name."""

    zero = f"0x{0:016X}"
    place = "%%%d = getelementptr double, ptr %%r%d, i64 %d"

    def __init__(self, out: list[str]):
        self.out = out
        self.run = (0, 0, 0)  # zeros that have not been written yet: of which output, the first, how many

    def put(self, n: int, to: int, at: int, value: str) -> int:
        """Entry ``at`` of output ``to``."""
        if value == self.zero and self.run[2] and self.run[0] == to and self.run[1] + self.run[2] == at:
            self.run = (to, self.run[1], self.run[2] + 1)
            return n
        n = self.clear(n)
        if value == self.zero:
            self.run = (to, at, 1)
            return n
        self.out.append(f"{self.place % (n, to, at)}\nstore double {value}, ptr %{n}")
        return n + 1

    def clear(self, n: int) -> int:
        """Write the zeros that wait."""
        (to, first, count), self.run = self.run, (0, 0, 0)
        if count >= MIN_ZEROS:
            self.out.append(f"{self.place % (n, to, first)}\n%{n + 1} = call ptr @memset(ptr %{n}, i32 0, i64 {8 * count})")
            return n + 2
        for j in range(count):
            self.out.append(f"{self.place % (n + j, to, first + j)}\nstore double 0.0, ptr %{n + j}")
        return n + count
