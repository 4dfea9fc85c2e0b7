"""Digests of many messages in one process, by the code that `pyzor digest` runs.

Messages come on standard input, each after its length in four bytes, big-endian. For each one line goes to standard output:
the digest and its lines in hexadecimal, with blanks between, or `!` and what was raised.
An argument names the folder to load pyzor from, if it is not the installed one.
"""

import email
import struct
import sys

if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv[1])

import pyzor.digest


class Digester(pyzor.digest.DataDigester):
    """Keeps the lines it hashes."""

    __slots__ = ["kept"]

    def handle_line(self, line):
        self.kept = getattr(self, "kept", []) + [line]
        super().handle_line(line)


def answer(message):
    try:
        digester = Digester(email.message_from_bytes(message))
    except Exception as error:
        return "! " + type(error).__name__
    return " ".join([digester.value] + [line.hex() for line in getattr(digester, "kept", [])])


def main():
    source = sys.stdin.buffer
    while length := source.read(4):
        message = source.read(struct.unpack(">I", length)[0])
        print(answer(message))


main()
