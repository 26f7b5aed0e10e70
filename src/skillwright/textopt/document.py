"""A skill document as it enters a run."""


def plain_document(text: str) -> str:
    r"""Return a document with ``\n`` as its only line break, and without a byte order mark.

    A model quotes lines as it is shown them, with plain line breaks. In a document with others
    none of its anchors over two lines would be found, and its edits would mix both kinds.
    """
    return text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
