"""Cuts JSON that is nested too deeply to be read by recursion. Pure, and not recursive itself.

A kube-apiserver stores 10,000 levels in a field that its schema does not name, for everybody who
may create such an object; Python's limit of recursion is far below. Without this a single object
would hide all others of its list, and end every watch.
"""

from __future__ import annotations

import re

# Far beyond any object, and far enough below the limit of recursion to go through every function.
DEPTH_MAX = 200
# Brackets in texts do not count. Both parts are possessive: nothing is gone through twice.
_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{]|[\]}]', re.DOTALL)
_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_ONE_FORM = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(one for one in range(256) if one not in b"[]{}")


def cut(raw: bytes | memoryview, depth_max: int) -> bytes:
    """The same text with null for every list and object that is deeper than `depth_max`."""
    whole, parts, depth, begin = bytes(raw), list[bytes](), 0, 0
    for token in _TOKENS.finditer(whole):
        match whole[token.start()]:
            case 0x5B | 0x7B:
                depth += 1
                if depth == depth_max + 1:
                    parts += (whole[begin : token.start()], b"null")
            case 0x5D | 0x7D:
                depth -= 1
                if depth == depth_max:
                    begin = token.end()
    return b"".join((*parts, whole[begin:])) if depth <= depth_max else b"".join(parts)


def is_deep(raw: bytes | memoryview) -> bool:
    """Whether lists and objects are nested in as many levels as are kept, or in more.

    Each turn takes the innermost level away, at the speed of C: this is asked for whole lists.
    """
    brackets = _TEXTS.sub(b"", bytes(raw)).translate(_ONE_FORM, _OTHERS)
    for _ in range(DEPTH_MAX - 1):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return False
    return True
