"""What a trained text is compared with: programs that read the same rows."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rows_study.sets import Row

Answers = list[str]


def majority(train: Sequence[Row], test: Sequence[Row]) -> Answers:
    """Answer with the label that train has most often."""
    (label, _) = Counter(row["label"] for row in train).most_common(1)[0]
    return [label] * len(test)


def tfidf_lr(train: Sequence[Row], test: Sequence[Row]) -> Answers:
    """Answer by logistic regression on tf-idf of words and pairs of words, untuned.

    Where a row offers options, the likeliest of them is the answer.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=1)
    model = LogisticRegression(C=10.0, max_iter=1000)
    model.fit(words.fit_transform([row["text"] for row in train]), [row["label"] for row in train])
    chances = model.predict_proba(words.transform([row["text"] for row in test]))
    labels = [str(one) for one in model.classes_]
    answers = []
    for row, chance in zip(test, chances, strict=True):
        ranked = sorted(zip(chance, labels, strict=True), reverse=True)
        offered = _options(row)
        known = [label for _, label in ranked if not offered or label in offered]
        answers.append(known[0] if known else offered[0])
    return answers


def overlap(train: Sequence[Row], test: Sequence[Row]) -> Answers:
    """Answer with the option whose name shares the most word stems with the text."""
    del train
    answers = []
    for row in test:
        said = set(_parts(row["text"]))
        scored = [(len(said & set(_parts(one))), -at, one) for at, one in enumerate(_options(row))]
        answers.append(max(scored)[2] if scored else "")
    return answers


def _parts(text: str) -> list[str]:
    """Split a text or a name such as ``getWeather_2`` into stems of words."""
    return [word.lower()[:5] for word in re.findall(r"[A-Z]?[a-z]+", text) if len(word) > 2]


def _options(row: Row) -> list[str]:
    return [one for one in row["options"].split(", ") if one]


BASELINES: Mapping[str, Callable[[Sequence[Row], Sequence[Row]], Answers]] = {
    "majority": majority,
    "tf-idf and logistic regression": tfidf_lr,
    "overlap of words and names": overlap,
}
"""In the order of the table; the last one only where rows have options."""
