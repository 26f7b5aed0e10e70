"""What an agent is asked about a row, whatever the template and the row are."""

import time

import pytest

from skillwright.core import DataError
from skillwright.envs.table.prompts import render_prompt

ROW = {"q": "How much?", "blank": None, "many": ["a", None], "one": {"x": None, "é": 1}, "n": 3}


@pytest.mark.parametrize(
    ("template", "asked"),
    [
        ("{{ q }}", "How much?"),
        ("C: {{ blank }}\n{{ q }}", "C: \nHow much?"),
        ("{{ q }}{{ row.blank }}{{ row['blank'] }}{{ one.x }}", "How much?"),
        ("{{ blank | upper }}{{ blank | trim }}{{ 'x' ~ blank }}", "x"),
        ("{{ '%s!' | format(blank) }}{{ '[%s]' % blank }}", "![]"),
        ("{% if blank %}yes{% else %}no{% endif %}", "no"),
        ("{{ blank is none }} {{ q is none }} {{ blank == none }}", "True False True"),
        ("{% if blank != none %}yes{% endif %}{{ blank != '' }}{{ q != none }}", "FalseTrue"),
        ("{% if blank is not none %}C: {{ blank }}{% endif %}{{ q }}", "How much?"),
        ("{{ blank or 'nothing' }} {{ blank | default('empty', true) }}", "nothing empty"),
        ("{% for x in blank %}{{ x }}{% endfor %}.", "."),
        ("{{ many }} {{ one }}", '["a", null] {"x": null, "é": 1}'),
        ("{% for x in many %}{{ loop.index }}{{ x }} {% endfor %}", "1a 2"),
        ("{% for x, y in one.items() %}{{ x }}={{ y }};{% endfor %}", "x=;é=1;"),
        (
            "{{ many | join(', ') }} {{ n * 2 }} {{ n ** 2 + 1 }} {{ 'ab' * n }}",
            "a,  6 10 ababab",
        ),
        ("{{ q | replace('much', 'many') | truncate(255) | indent(2) }}", "How many?"),
        (
            "{% set x = q ~ '!' %}{{ x }}{{ '%05d' % n }}{{ '{:>4}'.format(n) }}",
            "How much?!00003   3",
        ),
        ("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(n) }}{{ f(q) }}", "<3><How much?>"),
        (
            "{% set ns = namespace(t='') %}{% for x in [1, 2] %}{% set ns.t = ns.t ~ x %}"
            "{% endfor %}{{ ns.t }}",
            "12",
        ),
    ],
)
def test_a_template_is_filled_in_and_nothing_is_asked_as_none(template, asked):
    assert render_prompt(template, ROW) == asked


DOUBLE = "{% set x = 'x' %}"
BOMBS = [
    "{{ 'x' * 1000000000 }}",
    "{{ 1000000000 * 'x' }}",
    "{{ q * 10 ** 9 }}",
    "{{ [1] * 1000000000 }}",
    "{{ 10 ** (10 ** 8) }}",
    "{{ 9 ** 99999999 }}",
    "{{ 'x' | center(1000000000) }}",
    "{{ 'x'.center(1000000000) }}",
    "{{ 'x'.ljust(1000000000) }}",
    "{{ 'x'.zfill(1000000000) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%1000000000d' | format(1) }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ '{:{}}'.format(1, 1000000000) }}",
    "{{ q | indent(1000000000, true) }}",
    "{{ [1, [2]] | tojson(indent=1000000000) }}",
    "{% set x = 'x' * 100000 %}{{ x.replace('x', x) }}",
    "{% set x = 'x' * 100000 %}{{ x | replace('x', x) }}",
    "{% set x = 'x' * 100000 %}{{ x.join(x) }}",
    "{% set x = 'x' * 100000 %}{{ x | join(x) }}",
    "{{ q | list | batch(1000000000, 'x') | list }}",
    "{{ q | slice(1000000000) | list }}",
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% macro f(n) %}{{ caller() }}{% endmacro %}"
    + "{% call f(1) %}" * 15
    + "x"
    + "{% endcall %}" * 15
    + "{{ 'x' * 10 ** 9 }}",
    DOUBLE + "{% set x = x ~ x %}" * 40 + "{{ x }}",
    DOUBLE + "{% set x = x + x %}" * 40 + "{{ x }}",
    DOUBLE + "{% set x = [x, x] %}" * 40 + "{{ x }}",
    DOUBLE + "{% set x = [x, x] %}" * 40 + "{{ x | string }}",
    DOUBLE + "{% set x = (x, x) %}" * 40 + "{{ x == x }}",
    DOUBLE + "{% set x = {'a': x, 'b': x} %}" * 40 + "{{ x | tojson }}",
    DOUBLE + "{% set x = dict(a=x, b=x) %}" * 40 + "{{ x }}",
    DOUBLE + "{% set x %}{{ x }}{{ x }}{% endset %}" * 40 + "{{ x }}",
    DOUBLE + "{% set x = '%s%s' % (x, x) %}" * 40 + "{{ x }}",
    DOUBLE + "{% set x = '{0}{0}'.format(x) %}" * 40 + "{{ x }}",
    DOUBLE + "{% set x = [x, x] | join %}" * 40 + "{{ x }}",
    "{% set n = 9 %}" + "{% set n = n * n %}" * 40 + "{{ n }}",
    "{% set x = 'x' * 90000 %}{{ x | urlize(trim_url_limit=1000000000) * 10000 }}",
    "{{ " + "(" * 5000 + "q" + ")" * 5000 + " }}",
    "{% for a in q %}" * 30 + "{{ q }}" + "{% endfor %}" * 30,
    "{{ q | wordwrap(1, wrapstring='x' * 100000000) }}",
    "{% set x = 'a ' * 10000 %}{{ x | wordwrap(1, wrapstring='x' * 100000) }}",
    "{{ q | batch(2) | map('center', 1000000000) | list }}",
    "{{ ['x'] | map('center', 1000000000) | list }}",
    "{{ range(100000) | map('string') | map('center', 100000) | list }}",
    "{{ 'x'.expandtabs(1000000000) ~ '\\t'.expandtabs(1000000000) }}",
    "{{ 'x'.__class__ }}",
    "{% include 'x' %}",
    "{{ 1 / 0 }}",
    "{{ undefined_name }}",
    "{% for x in q %}",
]


@pytest.mark.parametrize(
    ("template", "asked"),
    [
        ("{{ n | string }} {{ n | int }} {{ n | abs }}", "1400000000 1400000000 1400000000"),
        ("{{ '{:,}'.format(n) }} {{ n | filesizeformat }}", "1,400,000,000 1.4 GB"),
        ("{{ '%d' % n }} {{ '%5d' | format(n) }} {{ n % 7 }}", "1400000000 1400000000 0"),
        (
            "{{ n | default(2000000000) }}{{ [n] | select('gt', 2000000000) | list }}",
            "1400000000[]",
        ),
        ("{{ text | trim }}", "50% off order 1234567890 {a: 123456}"),
        (
            "{{ '%05.1f|%-4s|{:>4}' % (2.25, 'a') }}{{ '{:>4}|'.format('b') }}",
            "002.2|a   |{:>4}   b|",
        ),
    ],
)
def test_large_numbers_are_no_bombs(template, asked):
    row = {"n": 1_400_000_000, "text": "50% off order 1234567890 {a: 123456}"}
    assert render_prompt(template, row) == asked


@pytest.mark.parametrize(
    "template",
    [
        "{{ '{:1000000000}'.format('x') }}",
        "{{ '{0:{1[0]}}'.format('x', [1000000000]) }}",
        "{{ '{x:1000000000}'.format_map({'x': 1}) }}",
        "{{ '%*d' % (1000000000, 5) }}",
        "{{ '%.*f' % (1000000000, 1.5) }}",
        "{{ '%(x)1000000000s' | format(x=1) }}",
        "{{ '%.1000000000f' % 5 }}",
    ],
)
def test_a_format_that_pads_to_a_gigabyte_is_refused(template):
    with pytest.raises(DataError, match="pads a value to more than 999 characters"):
        render_prompt(template, {"q": "x"})


@pytest.mark.parametrize("template", BOMBS, ids=range(len(BOMBS)))
def test_a_template_that_loops_recurses_or_builds_a_gigabyte_is_refused(template):
    began = time.process_time()
    with pytest.raises(DataError, match="the prompt's template"):
        render_prompt(template, ROW)
    assert time.process_time() - began < 20


def test_a_long_row_and_a_long_template_are_no_bombs():
    row = {"turns": [{"who": "agent", "said": "x" * 200}] * 2000, "text": "word " * 200_000}
    talk = "{% for turn in turns %}{{ turn.who }}: {{ turn.said | trim }}\n{% endfor %}"
    assert len(render_prompt(talk, row)) > 400_000
    assert len(render_prompt("{{ text | replace('word', 'term') }}", row)) > 900_000
    assert (
        len(render_prompt("rule\n" * 10_000 + talk, {**row, "turns": row["turns"][:200]})) > 50_000
    )
