"""Reads the two formats that `heapprof push` sends, by the protocols' own definitions of their messages: pprof's
profile.proto, and OpenTelemetry's ExportProfilesServiceRequest (profiles/v1development)."""

import struct
from collections import Counter
from dataclasses import dataclass, field


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        if byte < 0x80:
            return value, at
        shift += 7


class Message:
    """The fields of a message: {number: [values]}."""

    def __init__(self, data):
        self.fields = {}
        at = 0
        while at < len(data):
            key, at = varint(data, at)
            kind = key & 7
            if kind == 0:
                value, at = varint(data, at)
            elif kind == 1:
                value, at = struct.unpack_from("<Q", data, at)[0], at + 8
            else:
                assert kind == 2, f"wire type {kind}"
                length, at = varint(data, at)
                assert at + length <= len(data), "a field is longer than its message"
                value, at = data[at:at + length], at + length
            self.fields.setdefault(key >> 3, []).append(value)

    def number(self, number):
        return self.fields.get(number, [0])[0]

    def text(self, number):
        return self.fields.get(number, [b""])[0].decode()

    def message(self, number):
        return Message(self.fields.get(number, [b""])[0])

    def messages(self, number):
        return [Message(data) for data in self.fields.get(number, [])]

    def packed(self, number):
        numbers = []
        for data in self.fields.get(number, []):
            at = 0
            while at < len(data):
                value, at = varint(data, at)
                numbers.append(value)
        return numbers


@dataclass
class Profile:
    """One kind of value."""
    unit: str
    time_ns: int
    duration_ns: int
    stacks: Counter = field(default_factory=Counter)  # names of functions, innermost first: value

    @property
    def total(self):
        return self.stacks.total()


def read_pprof(data, with_lines=False):
    """{kind: Profile}, and the comments. `with_lines`: stacks have (function, file, line) in place of names."""
    message = Message(data)
    strings = [text.decode() for text in message.fields[6]]
    functions = {one.number(1): (strings[one.number(2)], strings[one.number(4)]) for one in message.messages(5)}

    def frame(line):
        name, file = functions[line.number(1)]
        return (name, file, line.number(2)) if with_lines else name

    locations = {one.number(1): [frame(line) for line in one.messages(4)] for one in message.messages(4)}
    kinds = [(strings[one.number(1)], strings[one.number(2)]) for one in message.messages(1)]
    profiles = {kind: Profile(unit, message.number(9), message.number(10)) for kind, unit in kinds}
    for sample in message.messages(2):
        stack = tuple(name for location in sample.packed(1) for name in locations[location])
        for (kind, _), value in zip(kinds, sample.packed(2), strict=True):
            profiles[kind].stacks[stack] += value
    return profiles, [strings[number] for number in message.fields.get(13, [])]


def any_value(message):
    return message.text(1) if 1 in message.fields else message.number(3)


def read_otlp(data):
    """{kind: Profile}, and the attributes of the resource."""
    request = Message(data)
    dictionary = request.message(2)
    # Entry 0 of each table is empty: mappings, locations, functions, links, strings, attributes, stacks.
    for table in (1, 2, 3, 6, 7):
        assert dictionary.fields[table][0] == b"", f"table {table}"
    assert dictionary.message(4).fields == {1: [bytes(16)], 2: [bytes(8)]}
    strings = [text.decode() for text in dictionary.fields[5]]
    assert strings[0] == "" and len(set(strings)) == len(strings)
    mappings, attributes = dictionary.messages(1), dictionary.messages(6)
    for mapping in mappings:
        for index in mapping.packed(5):
            assert strings[attributes[index].number(1)] == "process.executable.build_id.gnu"
            bytes.fromhex(any_value(attributes[index].message(2)))
    functions = [strings[one.number(1)] for one in dictionary.messages(3)]
    locations = []
    for one in dictionary.messages(2):
        assert one.number(1) < len(mappings)
        locations.append([functions[line.number(1)] for line in one.messages(3)])
    stacks = [tuple(name for location in one.packed(1) for name in locations[location])
              for one in dictionary.messages(7)]
    [of_resource] = request.messages(1)
    resource = {one.text(1): any_value(one.message(2)) for one in of_resource.message(1).messages(1)}
    [of_scope] = of_resource.messages(2)
    assert of_scope.message(1).text(1) == "heapprof"
    profiles, ids = {}, set()
    for one in of_scope.messages(2):
        kind = one.message(1)
        profile = Profile(strings[kind.number(2)], one.number(3), one.number(4))
        for sample in one.messages(2):
            assert sample.number(1) != 0
            [value] = sample.packed(4)
            profile.stacks[stacks[sample.number(1)]] += value
        profiles[strings[kind.number(1)]] = profile
        [identifier] = one.fields[7]
        assert len(identifier) == 16
        ids.add(identifier)
    assert len(ids) == len(profiles)
    return profiles, resource
