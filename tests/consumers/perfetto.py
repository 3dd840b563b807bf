"""Perfetto's own definitions of its messages (from PyPI) read the export: every field is known to them, samples, names
and stacks are those of the recording, and the counters those of its timeline."""

import csv
import io
import json
import sys

import consumers
import harness

sys.path.insert(0, str(consumers.FOLDER / "python"))


def unknown_fields(message):
    """The numbers of fields that the definition of `message`, or of a message in it, lacks."""
    from google.protobuf import unknown_fields as unknown
    found = [field.field_number for field in unknown.UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                found += unknown_fields(one)
    return found


class Interned:
    """What a trace defines by number."""

    def __init__(self, data):
        def texts(messages):
            return {message.iid: message.str for message in messages}
        self.functions = texts(data.function_names)
        self.sources = texts(data.source_paths)
        self.paths = texts(data.mapping_paths)
        self.build_ids = texts(data.build_ids)
        self.mappings = {mapping.iid: mapping for mapping in data.mappings}
        self.frames = {frame.iid: frame for frame in data.frames}
        self.stacks = {stack.iid: stack.frame_ids for stack in data.callstacks}

    def frame(self, number):
        """As a frame of `report --json`."""
        frame = self.frames[number]
        mapping = self.mappings.get(frame.mapping_id)
        return {"function": self.functions[frame.function_name_id].decode(),
                "file": self.sources[frame.source_path_iid].decode() if frame.source_path_iid else None,
                "line": frame.line_number or None,
                "module": self.paths[mapping.path_string_ids[0]].decode() if mapping else "",
                "build_id": (self.build_ids[mapping.build_id].hex() or None) if mapping else None}


class Perfetto(consumers.Case):
    def read(self, trace):
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as definitions
        read = definitions.Trace.FromString(self.export("perfetto", trace).read_bytes())
        self.assertEqual(unknown_fields(read), [])
        return list(read.packet)

    def heaps(self, packets):
        """{name: samples}, and what they refer to."""
        interned = [packet.interned_data for packet in packets if packet.HasField("interned_data")]
        self.assertEqual(len(interned), 1)
        dumps = [dump for packet in packets for dump in packet.profile_packet.process_dumps]
        return {dump.heap_name: dump.samples for dump in dumps}, Interned(interned[0])

    def test_totals(self):
        self.each_sample(self.check_totals)

    def check_totals(self, name, trace):
        heaps, interned = self.heaps(self.read(trace))
        totals = self.totals(trace)
        malloc, peak = heaps["malloc"], heaps["malloc, live at the peak"]
        self.assertEqual({"allocated_bytes": sum(sample.self_allocated for sample in malloc),
                          "allocations": sum(sample.alloc_count for sample in malloc),
                          "leaked_bytes": sum(sample.self_allocated - sample.self_freed for sample in malloc),
                          "leaked_blocks": sum(sample.alloc_count - sample.free_count for sample in malloc),
                          "peak_bytes": sum(sample.self_allocated for sample in peak),
                          "peak_blocks": sum(sample.alloc_count for sample in peak)},
                         {cost: figure for cost, figure in totals.items() if not cost.startswith("temporary")})
        for sample in (*malloc, *peak):
            for frame in interned.stacks[sample.callstack_id]:
                interned.frame(frame)
        if name == "nasty":
            self.check_nasty_names({text.decode() for text in interned.functions.values()})
        if name == "many":
            self.assertEqual(len(malloc), self.many_stacks)

    def test_stacks(self):
        """Every leaked stack of the report, frame for frame."""
        trace = self.real()
        heaps, interned = self.heaps(self.read(trace))
        ours = []
        for stack in self.all_stacks(trace, "leaked"):
            frames = [{key: frame[key] for key in ("function", "file", "line", "module", "build_id")}
                      for frame in stack["stack"]]
            if stack["bytes"] != 0 and all(frame["function"] for frame in frames):
                ours.append((stack["bytes"], json.dumps(frames, sort_keys=True)))
        theirs = []
        for sample in heaps["malloc"]:
            # Perfetto's stacks begin with the outermost frame.
            frames = [interned.frame(number) for number in reversed(interned.stacks[sample.callstack_id])]
            theirs.append((sample.self_allocated - sample.self_freed, json.dumps(frames, sort_keys=True)))
        self.assertGreater(len(ours), 3)
        for stack in ours:
            self.assertIn(stack, theirs)

    def test_counters_and_marks(self):
        trace = self.record(harness.program("marks")).trace
        packets = self.read(trace)
        tracks = {packet.track_descriptor.uuid: packet.track_descriptor.name or "process"
                  for packet in packets if packet.HasField("track_descriptor")}
        timeline = json.loads(self.heapprof("timeline", trace, "--json"))
        values = {}
        marks = []
        for packet in packets:
            if packet.HasField("track_event"):
                track = tracks[packet.track_event.track_uuid]
                if track == "marks":
                    marks.append((packet.timestamp, packet.track_event.name))
                else:
                    values.setdefault(track, []).append((packet.timestamp, packet.track_event.counter_value))
        rows = list(csv.DictReader(io.StringIO(self.heapprof("timeline", trace, "--format", "csv"))))
        starts = [0] + [int(row["time_ns"]) for row in rows]
        for track, column in (("live bytes", "highest_bytes"), ("resident", "rss_bytes")):
            ours = [(start, int(row[column])) for start, row in zip(starts, rows) if row[column]]
            self.assertEqual(values[track][:len(ours)], ours, track)
        self.assertEqual(max(value for _, value in values["live bytes"]), self.totals(trace)["peak_bytes"])
        self.assertEqual(values["live bytes"][-1], (timeline["duration_ns"], self.totals(trace)["leaked_bytes"]))
        self.assertEqual([text for _, text in marks], [mark["text"] for mark in timeline["marks"]])
        self.assertGreater(len(marks), 1)
        clocks = {clock.clock_id: clock.timestamp for packet in packets for clock in packet.clock_snapshot.clocks}
        self.assertEqual(clocks[6], timeline["duration_ns"])

    def test_times(self):
        """Each event and each heap profile has a time, also at the start: trace_processor drops events without one."""
        self.each_sample(self.check_times, leave_out=("empty",))  # it has no events

    def check_times(self, name, trace):
        packets = self.read(trace)
        events = [packet for packet in packets if packet.HasField("track_event")]
        timed = [packet for packet in packets if packet.HasField("profile_packet")] + events
        self.assertTrue(events)
        self.assertTrue(all(packet.HasField("timestamp") for packet in timed))
        self.assertEqual(min(packet.timestamp for packet in events), 0)

    def test_selections(self):
        """The moment of --live-at is named; the figures of selections are compared by exports.py."""
        trace = self.folder / "plain.heapprof"
        self.options = ("--live-at", "50%")
        heaps, _ = self.heaps(self.read(trace))
        self.assertEqual(sum(sample.self_allocated for sample in heaps["malloc, live at the moment"]),
                         self.totals(trace)["peak_bytes"])


if __name__ == "__main__":
    harness.skip_unless((consumers.FOLDER / "python" / "perfetto").is_dir(), "perfetto of PyPI is not installed")
    harness.main()
