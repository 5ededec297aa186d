"""Errors that the person at the keyboard can fix, and the suggestions they carry."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """The person at the keyboard can fix this; the message says how.

    The command line prints the message on one line and exits with code 2.
    """


def nearest(word: str, words: Iterable[str]) -> str:
    """Suggest the known word that is most similar to an unknown one.

    Returns `, did you mean 'x'?`, or an empty string if no word is similar.
    """
    found = difflib.get_close_matches(word, list(words), n=1)
    return f", did you mean {found[0]!r}?" if found else ""
