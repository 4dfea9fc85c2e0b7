"""Computes the digests of many messages in one process, with the code that `pyzor digest` runs.

Reads messages from standard input, each preceded by its length in four bytes, big-endian. Writes one line per message
to standard output: the digest and its lines in hexadecimal, separated by blanks, or `!` and the exception.
An optional argument names the folder to load pyzor from, instead of the installed one.
"""

import email
import struct
import sys

if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv[1])

import pyzor.digest


class Digester(pyzor.digest.DataDigester):
    """Stores the lines that it hashes."""

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
