"""Arithmetic with bounds."""

import pytest

from skillwright.worlds.tau_bench.tau_core import DOMAINS, Database, Tables, call_tool
from skillwright.worlds.tau_bench.tau_core.tools import MAX_CHARS, calculate

RETAIL = DOMAINS["retail"]
DB = Database(Tables(RETAIL, {table: {} for table in RETAIL.tables}))
SYNTAX = "Error: invalid syntax (<string>, line 1)"
ZEROS = (
    "Error: leading zeros in decimal integer literals are not permitted; use an 0o prefix for "
    "octal integers (<string>, line 1)"
)
NOT_A_NUMBER = "Error: float() argument must be a string or a real number, not"


def said(expression):
    return call_tool(DB, "calculate", {"expression": expression}).observation


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("2 + 2", "4.0"),
        ("-0", "0.0"),
        ("0.005", "0.01"),
        ("1.005", "1.0"),
        ("5//2", "2.0"),
        ("2.675*1", "2.67"),
        ("100.125", "100.12"),
        ("2**10", "1024.0"),
        ("2**0.5", "1.41"),
        ("99999999999999999999", "1e+20"),
        ("3*-2", "-6.0"),
        (".5+.5", "1.0"),
        ("5.", "5.0"),
        ("--5", "5.0"),
        ("  7", "7.0"),
        ("2**-1", "0.5"),
        ("-2**2", "-4.0"),
        ("2**3**2", "512.0"),
        ("1/0", "Error: division by zero"),
        ("", "Error: invalid syntax (<string>, line 0)"),
        ("   ", "Error: invalid syntax (<string>, line 0)"),
        ("2 3", SYNTAX),
        ("5*", SYNTAX),
        ("1.5.2", SYNTAX),
        ("(1+2", "Error: '(' was never closed (<string>, line 1)"),
        ("007", ZEROS),
        ("()", f"{NOT_A_NUMBER} 'tuple'"),
        ("...", f"{NOT_A_NUMBER} 'ellipsis'"),
        ("(-8)**0.5", f"{NOT_A_NUMBER} 'complex'"),
        ("(3)(4)", "Error: 'int' object is not callable"),
        ("(3)(1/0)", "Error: division by zero"),
        ("5.(3)", "Error: 'float' object is not callable"),
        ("()+1", 'Error: can only concatenate tuple (not "int") to tuple'),
        ("10**400", "Error: int too large to convert to float"),
        ("10.0**400", "Error: (34, 'Numerical result out of range')"),
        (5, "Error: 'int' object is not iterable"),
        (None, "Error: 'NoneType' object is not iterable"),
        (["1", "+", "1"], "Error: eval() arg 1 must be a string, bytes or code object"),
        *[
            (text, "Error: invalid characters in expression")
            for text in ("1,000", "1e3", "$5", "x")
        ],
        *[(text, "Error: invalid characters in expression") for text in ("1\n+1", "5%3", "1_0")],
    ],
)
def test_the_results_are_those_of_tau_bench(expression, result):
    assert said(expression) == result


@pytest.mark.parametrize(
    "expression",
    [
        "9**9**9**9",
        "(9**9**4)*(9**9**4)",
        "9**99999999",
        "+".join(["1"] * MAX_CHARS),
        "(" * 1_000 + ")" * 1_000,
        "2**" * 600 + "2",
        "3(*())",
        "3(**())",
        "*".join(["9**999"] * 200),
    ],
)
def test_what_would_hang_or_overflow_is_refused(expression):
    assert said(expression).startswith("Error: ")


def test_a_bound_says_which():
    with pytest.raises(ValueError, match="too large to be computed"):
        calculate("9**9**9**9")
    with pytest.raises(ValueError, match="2001 characters; at most 2000"):
        calculate(" " * (MAX_CHARS + 1))


def test_a_sum_of_many_terms_is_computed():
    assert calculate("+".join(["1.5"] * 400)) == "600.0"
