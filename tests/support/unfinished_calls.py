"""Compares a trace with the ledger of a program that was killed, or whose calls were abandoned by longjmp. The trace
must contain the events of calls that are done, and no events of calls that were not begun. It may contain the first
events of a call that was begun but not done."""

import trace_reader
from ledger import Ledger, expected_events, matches


def compare(trace_path, ledger_path, skip_main=True):
    """The problem, or None; and the figures of the replay. `skip_main`: the calls of the first thread are not in the
    ledger."""
    ledger = Ledger(ledger_path)
    if ledger.errors:
        return ledger.error_text, None
    trace = trace_reader.Trace(trace_path)
    events = {}
    for thread in trace.threads():
        if not thread.nested:
            events.setdefault(thread.tid, []).extend(e.tuple() for e in thread.events
                                                     if e.op in trace_reader.HEAP_OPS)
    for thread in ledger.threads[1 if skip_main else 0:]:
        problem = compare_thread(thread, events.get(thread.tid, []))
        if problem:
            return problem, None
    return None, trace_reader.replay(trace_reader.merged(trace))


def compare_thread(thread, actual):
    """Compares all events of the thread, in order."""
    unfinished = sum(1 for entry in thread.entries if not entry.done)
    if unfinished > 1 or (unfinished and thread.entries[-1].done):
        raise ValueError("more than one call is not done: use compare_jumps")
    # Usually, all events of the calls that are done are there, and none has an unknown size.
    done = [event for entry in thread.entries if entry.done for event in expected_events(entry)]
    all_are_there = actual[:len(done)] == done
    position = len(done) if all_are_there else 0
    begin = len(thread.entries) - unfinished if all_are_there else 0
    for number, entry in enumerate(thread.entries[begin:], begin):
        for wanted in expected_events(entry):
            if position == len(actual):
                if entry.done:
                    return (f"thread {thread.index}: call {number} of {len(thread.entries)} is done, "
                            f"and {wanted} is missing")
                return None
            if not matches(wanted, actual[position]):
                return f"thread {thread.index}, event {position}, call {number}: {actual[position]}, not {wanted}"
            position += 1
    if position != len(actual):
        return f"thread {thread.index}: {len(actual) - position} events without a call: {actual[position:][:3]}"
    return None


def compare_jumps(entries, actual):
    """Like compare_thread, but any call may have been abandoned by longjmp. The first event must belong to the first
    call."""
    position = 0
    for number, entry in enumerate(entries):
        for wanted in expected_events(entry):
            if position < len(actual) and matches(wanted, actual[position]):
                position += 1
            elif entry.done:
                found = actual[position] if position < len(actual) else "nothing"
                return f"event {position}, call {number} of {len(entries)}: {found}, not {wanted}"
            else:
                break  # the call was abandoned before this event
    if position != len(actual):
        return f"{len(actual) - position} events without a call: {actual[position:][:3]}"
    return None
