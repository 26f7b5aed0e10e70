"""Replies and answers of many languages and models: what is right scores 1, what is near scores 0.

Characters that are hard to see are written as escapes.
"""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.envs.answers import answer_in
from skillwright.envs.table.settings import read_settings

LETTERS = (
    "ais 5.,/^{}[]\"'\\|*%-\u0130\u0131\u00df\u0301\u00b4\u2018\u201c\u2014\u00d7\u2075\u00bd\u0663"
    "\u4e09\u4e07\u304c\uff76\uff9e\u0e01\u0e49\u0e4c"
)
RIGHT = [
    # exact
    ("exact", "caf\u00e9", "cafe\u0301"),
    ("exact", "na\u00efve", "nai\u0308ve"),
    ("exact", "don't", "don\u2019t"),
    ("exact", "'tis", "\u2019tis"),
    ("exact", "Hawai'i", "Hawai\u02bbi"),
    ("exact", "yes", "\uff39\uff45\uff53"),
    ("exact", "yes", "yes\u200b"),
    ("exact", "yes", "\ufeffyes"),
    ("exact", "New York", "New\u00a0York"),
    ("exact", "10 km", "10\u202fkm"),
    ("exact", "A B", "A\u3000B"),
    ("exact", "well-known", "well\u2011known"),
    ("exact", "1914-1918", "1914\u20131918"),
    ("exact", "co-operation", "co-\u00adoperation"),
    ("exact", "yes", '"yes".'),
    ("exact", "yes", "\u00abyes\u00bb"),
    ("exact", "yes", "\u201eyes\u201c"),
    ("exact", "\u6771\u4eac", "\u300c\u6771\u4eac\u300d"),
    ("exact", "\u6771\u4eac", "\u6771\u4eac\u3002"),
    ("exact", "\u30ac\u30e9\u30b9", "\uff76\uff9e\uff97\uff7d"),
    ("exact", "\u0939\u093e\u0901", "\u0939\u093e\u0901\u0964"),
    (
        "exact",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0645\u06cc\u062e\u0648\u0627\u0647\u0645",
    ),
    ("exact", "Stra\u00dfe", "STRASSE"),
    ("exact", "\u0130stanbul", "istanbul"),
    ("exact", "\u0131l\u0131k", "ILIK"),
    ("exact", "\u039f\u0394\u039f\u03a3", "\u03bf\u03b4\u03bf\u03c2"),
    ("exact", "yes", "**Yes**"),
    ("exact", "B", "$\\boxed{B}$"),
    ("exact", "B", "\\boxed{\\text{B}}"),
    ("exact", "\u2764\ufe0f", "\u2764"),
    ("exact", "final", "\ufb01nal"),
    ("exact", "Paris", "<think>Rome: <answer>Rome</answer>?</think>Paris"),
    ("exact", "Paris", "hm, Rome?</think>\n\nParis."),
    ("exact", "Paris", "<answer>Paris"),
    ("exact", "\ud55c\uad6d", "\u1112\u1161\u11ab\u1100\u116e\u11a8"),
    ("exact", "100%", "100\uff05"),
    # contains
    ("contains", "\u6771\u4eac", "\u9996\u90fd\u306f\u6771\u4eac\u3067\u3059"),
    ("contains", "\u5317\u4eac", "\u4e2d\u56fd\u7684\u9996\u90fd\u662f\u5317\u4eac\u3002"),
    (
        "contains",
        "\u0e01\u0e23\u0e38\u0e07\u0e40\u0e17\u0e1e",
        "\u0e40\u0e21\u0e37\u0e2d\u0e07\u0e01\u0e23\u0e38\u0e07\u0e40\u0e17\u0e1e\u0e04\u0e37\u0e2d",
    ),
    ("contains", "iPhone", "\u6211\u7528iPhone\u624b\u673a"),
    ("contains", "\u30bf\u30ef\u30fc", "\u6771\u4eac\u30bf\u30ef\u30fc\u3067\u3059"),
    ("contains", "5", "\u7b2c5\u7ae0"),
    ("contains", "5", "It costs $5."),
    ("contains", "5", "pages 3-5"),
    ("contains", "5%", "about 5% of them"),
    ("contains", "-5", "it is \u22125 degrees"),
    ("contains", "Kafka", "It is Kafka\u2019s novel"),
    ("contains", "eau", "l\u2019eau"),
    ("contains", "Paris", "It is Paris\u2014the capital"),
    ("contains", "C++", "C++ is best"),
    ("contains", "\u0915\u092e", "\u0935\u0939 \u0915\u092e \u0939\u0948"),
    ("contains", "1,234", "in all 1,234 of them"),
    # one_of
    ("one_of", '["red", "crimson"]', "crimson"),
    ("one_of", "['red', 'RED']", "red"),
    ("one_of", "['red' 'crimson']", "crimson"),
    ("one_of", ["caf\u00e9", "bar"], "cafe\u0301"),
    ("one_of", "[5, 6]", "5"),
    ("one_of", "don't | do not", "don\u2019t"),
    # json
    ("json", '{"total": 12}', '```json\n{"total": 12,}\n```'),
    ("json", '{"total": 12}', 'First: {"total": 10}\nFinal: {"total": 12}'),
    ("json", '{"total": 12}', '{"total": 12} (not {"unit": "kg"})'),
    ("json", '{"total": 12}', "{'total': 12}"),
    ("json", '{"total": 12}', "{total: 12}"),
    ("json", '{"total": 12}', '{"total": 12 // dozen\n}'),
    ("json", '{"total": 12}', "{\u201ctotal\u201d: 12}"),
    ("json", '{"total": 12}', '{"answer": {"total": 12}}'),
    ("json", '{"total": 12}', '{"total": 12.0}'),
    ("json", '{"total": 12}', '{"total": "12"}'),
    ("json", {"total": "12.50"}, '{"total": 12.5}'),
    ("json", '{"a": true, "b": null}', '{"a": True, "b": None}'),
    ("json", '{"a": true}', '{"a": "true"}'),
    ("json", '{"zip": "01234"}', '{"zip": "01234"}'),
    ("json", '{"zip": "01234"}', '{"zip": 01234}'),
    ("json", '{"a": "don\'t"}', '{"a": "don\u2019t"}'),
    ("json", '{"a": {"b": [1, "X"]}}', '{"a": {"b": [1.0, "x"]}}'),
    ("json", {"a": "[1, 2]"}, '{"a": [1, 2]}'),
    # f1
    ("f1", "Caf\u00e9 'Rouge'", "Cafe\u0301 \u2018Rouge\u2019"),
    ("f1", "\u6771\u4eac\u30bf\u30ef\u30fc", "\u6771\u4eac\u30bf\u30ef\u30fc\u3002"),
    ("f1", "qu\u00e9", "\u00bfqu\u00e9?"),
    # number
    *(
        ("number", 1234, reply)
        for reply in (
            "1,234",
            "1\u202f234",
            "1\u00a0234",
            "1\u2009234",
            "1 234",
            "1'234",
            "1\u2019234",
            "1_234",
            "\u0661\u0662\u0663\u0664",
            "\u0661\u066c\u0662\u0663\u0664",
            "\uff11\uff0c\uff12\uff13\uff14",
            "1\\,234",
            "1{,}234",
            "1.234 \u00d7 10^3",
            "1.234e3",
            "\\$1,234",
            "USD 1,234.00",
            "**1,234**",
        )
    ),
    ("number", 1234567, "12,34,567"),
    ("number", 1234567, "1.234.567"),
    ("number", 1234.5, "1.234,50 \u20ac"),
    ("number", 1234.5, "1 234,50"),
    ("number", 300000, "3 \\times 10^5"),
    ("number", 300000, "3\u00d710\u2075"),
    ("number", 300000, "3\\cdot10^{5}"),
    ("number", 300000, "3*10**5"),
    ("number", 0.0003, "3\u00d710\u207b\u2074"),
    ("number", 0.75, "\\boxed{\\frac{3}{4}}"),
    ("number", -0.75, "$-\\dfrac{3}{4}$"),
    ("number", "3/4", "0.75"),
    ("number", 0.5, "\u00bd"),
    ("number", 1.5, "1\u00bd cups"),
    ("number", 2.5, "2\\frac{1}{2}"),
    ("number", 42, "42 m^2"),
    ("number", 42, "42 m\u00b2"),
    ("number", 42, "42 m2"),
    ("number", 42, "42 \\text{ cm}^{3}"),
    ("number", 9.81, "9.81 m\u00b7s\u207b\u00b2"),
    ("number", 42, "\u096a\u0968"),
    ("number", 42, "\u0e54\u0e52"),
    ("number", -7, "\u22127"),
    ("number", -7, "\u20137"),
    ("number", -7, "minus 7"),
    ("number", -5, "-$5.00"),
    ("number", 15, "First 12, no: the answer is 15"),
    ("number", 15, "The answer is 12. Wait, no: it is 15."),
    ("number", 15, "The answer is 15, not 12."),
    ("number", 18, "The final answer is 18\n\nAsk me for 2 more examples"),
    ("number", 18, "3 * 6 = 18\n#### 18"),
    ("number", 18, "\\boxed{18} is 3 more than 15"),
    ("number", 7, "The answer is the sum of 3 and 4, which is 7."),
    ("number", 42, "The answer is 42 (see step 3)."),
    ("number", 42, "\u7b54\u6848\u662f42\u3002\u51713\u6b65\u3002"),
    ("number", 42, "Antwort: 42 (Schritt 3)"),
    ("number", 42, "La respuesta es 42. Son 3 pasos."),
    ("number", "20%", "0.2"),
    ("number", "0.2", "20%"),
    ("number", 5000000, "$5 million"),
    ("number", 30000, "3\u4e07"),
    ("number", 42, "42 \u00b1 3"),
    ("number", "#### 18", "18"),
    ("number", "12345678901234567890", "12,345,678,901,234,567,890"),
]

WRONG = [
    # exact
    *(
        ("exact", right, reply)
        for right, reply in (
            ("00501", "501"),
            ("resume", "resumed"),
            ("red", "not red"),
            ("1.5", "15"),
            ("15", "1.5"),
            ("m\u00b2", "m2"),
            ("m\u00b2", "m\u00b3"),
            ("a\u00f1o", "ano"),
            ("\u0131l\u0131k", "ilik"),
            ("\u0130L\u0130K", "ILIK"),
            ("Ma\u00dfe", "Masse"),
            ("\u5927", "\u592a"),
            ("\u672a", "\u672b"),
            ("\u6771\u4eac", "\u4eac\u90fd"),
            ("\u6771\u4eac", "\u4e1c\u4eac"),
            ("\u30cf", "\u30d1"),
            ("\u30cf", "\u306f"),
            ("caf\u00e9", "cafe"),
            ("p\u00eache", "p\u00e9ch\u00e9"),
            ("-5", "5"),
            ("5", "5.5"),
            ("5 km", "5 m"),
            ("2020", "2021"),
            ("H\u2082O", "H2O"),
            ("x\u00b3", "x3"),
            ("yes", "no"),
            ("yes", "yes and no"),
            ("C++", "C"),
            ("C#", "C"),
            ("10%", "10"),
            ("\u00bd", "12"),
            ("\u00bd", "1/2 kg"),
            ("Schl\u00fcssel", "Schlussel"),
            ("\u0438", "\u0439"),
            ("\u0435", "\u0451"),
            ("\u043d\u0435\u0442", "\u0434\u0430"),
            ("a", "\u0430"),
            ("ma\u0300", "ma\u0301"),
            ("A", "a or b"),
            ("can", "can't"),
            ("can't", "cant"),
            ("it's", "its"),
            ("well-being", "wellbeing"),
            ("", "x"),
            ("\u0915\u092e", "\u0915\u092e\u0940"),
            ("\u0e21\u0e32", "\u0e21\u0e49\u0e32"),
            ("1,2", "2,1"),
            ("New York", "York"),
            ("New York", "Newyork"),
            ("3:4", "4:3"),
            ("$5", "\u20ac5"),
            ("true", "false"),
            ("\u2460", "1"),
            ("\u2122", "TM"),
            ("x^2", "x2"),
            ("1e3", "1e-3"),
            ("**", "*"),
            ("__init__", "init"),
        )
    ),
    # contains
    *(
        ("contains", right, reply)
        for right, reply in (
            ("5", "5.5"),
            ("5", "-5"),
            ("5", "15"),
            ("5", "1,500"),
            ("500", "1,500"),
            ("500", "1\u202f500"),
            ("5", "0.5"),
            ("5", ".5"),
            ("5", "5,5"),
            ("5", "5e3"),
            ("5", "10^5"),
            ("3", "3/4"),
            ("4", "3/4"),
            ("30", "12:30"),
            ("3.11", "3.11.4"),
            ("$5", "$5.00"),
            ("5", "\uff11\uff15"),
            ("5", "1'500"),
            ("\u0665", "\u0661\u0665"),
            ("2.5", "12.5"),
            ("12", "2012"),
            ("5", "\u22125"),
            ("5", "5\u00d710\u2076"),
            ("can", "I can't"),
            ("toxic", "It is non-toxic"),
            ("resume", "resumed"),
            ("red", "hundred"),
            ("\u30ed\u30b7\u30a2", "\u30d7\u30ed\u30b7\u30a2"),
            ("\u4e94", "\u5341\u4e94"),
            ("\u4e09", "\u4e09\u5341"),
            ("\u0915\u092e", "\u0915\u092e\u0940"),
            ("\u0e21\u0e32", "\u0e21\u0e32\u0e49"),
            ("etat", "\u00e9tat"),
            ("etat", "e\u0301tat"),
            ("cafe", "cafe\u0301"),
            ("ano", "un a\u00f1o"),
            ("man", "woman"),
            ("\u6771\u4eac", "\u5927\u962a\u3067\u3059"),
            ("m2", "42 m\u00b2"),
            ("Masse", "Ma\u00dfe"),
            ("no", "know"),
        )
    ),
    # one_of
    *(
        ("one_of", right, reply)
        for right, reply in (
            ('["red", "crimson"]', "blue"),
            ('["red", "crimson"]', "red, crimson"),
            ("['red' 'crimson']", "redcrimson"),
            ("NYC | New York", "York"),
            ("[5, 6]", "56"),
            ('["m\u00b2"]', "m2"),
            ('["00501"]', "501"),
            ('["red"]', "[]"),
            ("a\u00f1o | years", "ano"),
        )
    ),
    # number
    *(
        ("number", right, reply)
        for right, reply in (
            (5, "-5"),
            (-5, "5"),
            (15, "1.5"),
            (1.5, "15"),
            (1234, "1.234"),
            (1234, "12,34"),
            (1234, "1,2,3,4"),
            (12, "The answer is not 12 but 15"),
            (12, "15, not 12"),
            (12, "First 12, no: the answer is 15"),
            (12, "12, but \\boxed{15}"),
            (2, "42 m^2"),
            (2, "42 m\u00b2"),
            (2, "m2"),
            (3, "The answer is 42 (see step 3)"),
            (4, "\\boxed{\\frac{\\pi}{4}}"),
            (4, "\\frac{3}{4}"),
            (2, "\\sqrt{2}"),
            (3, "2\\sqrt{3}"),
            (3, "3\\pi"),
            (0.75, "\\frac{4}{3}"),
            (300000, "3 \\times 10^4"),
            (5, "3 \\times 10^5"),
            (10, "10^5"),
            (30, "12:30"),
            (11.4, "3.11.4"),
            (5, "5 million"),
            (3, "3\u4e07"),
            (3, "42 \u00b1 3"),
            (100, "52 kcal per 100 g"),
            (1, "0x1F"),
            (1, "1e400"),
            (7, "minus 7"),
            (0.2, "2%"),
            ("20%", "0.02"),
            ("20%", "2"),
            (2, "CO2"),
            ("12345678901234567890", "12345678901234567891"),
            ("9007199254740993", "9007199254740992"),
            (1000000000, "1000000001"),
            ("0.0000000001", "0"),
            (2020, "2021"),
            (42, "24"),
            (42, "\u0664\u0663"),
            (1234567, "12,34,568"),
            (0.5, "1\u00bd"),
            (18, "#### 81"),
            (42, "forty-two"),
            (1.234, "1,234"),
        )
    ),
    # json: no field right
    *(
        ("json", right, reply)
        for right, reply in (
            ('{"zip": "01234"}', '{"zip": "1234"}'),
            ('{"zip": "01234"}', '{"zip": 1234}'),
            ('{"zip": "1234"}', '{"zip": "01234"}'),
            ({"a": "123"}, '{"a": "00123"}'),
            ('{"a": 1}', '{"a": true}'),
            ('{"a": true}', '{"a": 1}'),
            ('{"a": true}', '{"a": "yes"}'),
            ('{"a": null}', '{"a": "null"}'),
            ('{"a": null}', '{"a": 0}'),
            ('{"a": 1}', '{"b": 1}'),
            ('{"a": "1.10"}', '{"a": "1.1"}'),
            ('{"a": [1, 2]}', '{"a": [2, 1]}'),
            ('{"a": [1]}', '{"a": [1, 2]}'),
            ('{"a": {"b": 1}}', '{"a": {"b": 1, "c": 2}}'),
            ('{"a": 12}', 'First: {"a": 12}\nFinal: {"a": 10}'),
            ('{"a": 12}', '{"a": 12} Final: {"a": 1'),
            ('{"a": 12}', '{"a": 12'),
            ('{"a": "x"}', '{"a": "y"}'),
            ('{"a": 1.5}', '{"a": 15}'),
            ('{"a": 1}', "a: 1"),
            ('{"a": "m\u00b2"}', '{"a": "m2"}'),
            ('{"a": "a\u00f1o"}', '{"a": "ano"}'),
            ('{"a": 1}', '{"a": "1 kg"}'),
            ('{"a": "2024-01-05"}', '{"a": "2024-05-01"}'),
            ('{"a": "2024"}', '{"a": "2024-01-05"}'),
            ('{"a": 9007199254740993}', '{"a": 9007199254740992}'),
            ('{"a": "1e3"}', '{"a": "1000"}'),
        )
    ),
    # f1
    *(
        ("f1", right, reply)
        for right, reply in (
            ("red", "blue"),
            ("m\u00b2", "m2"),
            ("a\u00f1o", "ano"),
            ("00501", "501"),
            ("resume", "resumed"),
            ("\u6771\u4eac", "\u5927\u962a"),
            ("1.5", "15"),
            ("-5", "5"),
            ("\u0131l\u0131k", "ilik"),
        )
    ),
]


def score_of(scorer, right, reply):
    made = read_settings({"scorer": scorer}).scorer
    return made.grade(answer_in(reply), right).score


@pytest.mark.parametrize(("scorer", "right", "reply"), RIGHT)
def test_a_right_answer_scores_1_however_it_is_written(scorer, right, reply):
    assert score_of(scorer, right, reply) == 1.0


@pytest.mark.parametrize(("scorer", "right", "reply"), WRONG)
def test_a_wrong_answer_that_looks_like_the_right_one_scores_0(scorer, right, reply):
    assert score_of(scorer, right, reply) == 0.0


def test_there_are_enough_pairs_to_trust_the_scorers():
    assert len(RIGHT) >= 70
    assert len(WRONG) >= 120


@pytest.mark.parametrize(
    ("scorer", "right", "reply"),
    [
        ("exact", "don't", "don\u2019t"),
        ("one_of", "don't | do not", "don\u2019t"),
        ("contains", "don't", "I don\u2019t"),
        ("f1", "caf\u00e9", "cafe\u0301"),
        ("json", '{"a": "don\'t"}', '{"a": "don\u2019t"}'),
    ],
)
def test_without_folding_only_the_same_characters_count(scorer, right, reply):
    assert score_of({"kind": scorer}, right, reply) == 1.0
    assert score_of({"kind": scorer, "fold": False}, right, reply) == 0.0


@pytest.mark.parametrize(
    ("scorer", "right", "reply", "reason"),
    [
        ("exact", "yes", "Yes!", "it differs from the answer only in case or punctuation"),
        ("exact", "A", "(A)", "it differs from the answer only in case or punctuation"),
        ("exact", "1.5", "15", "another answer"),
        ("exact", "1", "1.0", "it is the answer's number, written differently"),
        ("exact", "A", "Answer: A", "the answer is in the reply, with more text around it"),
        ("exact", '["red", "crimson"]', "red", "it is one of the answers that the cell lists"),
        ("exact", "yes", "", "the reply is empty"),
        ("one_of", "red | blue", "Red!", "it differs from the answer only in case or punctuation"),
        ("number", "5", "five", "no number found"),
        ("number", "5", "6", "another number"),
        ("json", '{"x": 1}', "none", "no JSON object found"),
        ("json", '{"x": 1}', '{"y": 1}', "the final object has no field x"),
        ("json", '{"x": 1, "y": 2}', '{"x": 3, "y": 2}', "another value in x"),
        ("json", '{"x": 1}', '{"x": 1', "the reply breaks off inside its final JSON object"),
    ],
)
def test_a_wrong_answer_has_a_reason_that_rows_share(scorer, right, reply, reason):
    assert read_settings({"scorer": scorer}).scorer.grade(reply, right).reason == reason


@given(
    st.sampled_from(["exact", "contains", "one_of", "f1", "number", "json"]),
    st.text(alphabet=st.sampled_from(LETTERS), max_size=30),
    st.text(alphabet=st.sampled_from(LETTERS), max_size=30),
)
def test_no_reply_breaks_a_scorer(scorer, right, reply):
    rights = {"number": "5", "json": '{"a": 5}'}
    made = read_settings({"scorer": scorer}).scorer
    wanted = rights.get(scorer, f"a{right}")
    assert 0 <= made.grade(reply, wanted).score <= 1
    assert made.grade(made.gold(wanted), wanted).score == 1.0


@pytest.mark.parametrize(
    "part",
    [
        *(
            "5 ",
            "1,",
            "9",
            "{",
            '{"a":',
            "\\frac{",
            "\\boxed{",
            "answer ",
            "\u4e94",
            "a",
            "<answer>",
        ),
        *("5/", "^", ".", " ", '"', "*", "{a:1}", "'a' ", "5.5 ", "</think>", "\u00b2", "sqrt("),
    ],
)
@pytest.mark.parametrize(
    ("scorer", "right"),
    [
        *(("exact", "a"), ("contains", "5"), ("contains", "\u4e94"), ("one_of", "a | b")),
        *(("f1", "a"), ("number", "5"), ("json", '{"a": 5}')),
    ],
)
def test_a_very_long_reply_takes_bounded_time(scorer, right, part):
    begun = time.process_time()
    score_of(scorer, right, part * (100_000 // len(part)))
    assert time.process_time() - begun < 10
