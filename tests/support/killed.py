"""Compares a trace with a ledger whose program was killed, or whose calls were left by longjmp: what is done is in
the trace, what was never begun is not, and of a call that was begun and not done, its first events may be there."""

import trace_reader
from ledger import Ledger, expected_events, matches


def compare(trace_path, ledger_path, skip_main=True):
    """The problem found, or None; and the figures of the replay. `skip_main`: the first thread's own calls are not in
    the ledger."""
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
    """Every event of the thread, in order: none lost, none twice, none invented."""
    unfinished = sum(1 for entry in thread.entries if not entry.done)
    if unfinished > 1 or (unfinished and thread.entries[-1].done):
        raise ValueError("more than one call left open: use compare_jumps")
    position = 0
    for number, entry in enumerate(thread.entries):
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
        return f"thread {thread.index}: {len(actual) - position} events that no call made: {actual[position:][:3]}"
    return None


def compare_jumps(entries, actual):
    """As compare_thread, where any call may have been left in the middle. The first event must be the first
    call's."""
    position = 0
    for number, entry in enumerate(entries):
        for wanted in expected_events(entry):
            if position < len(actual) and matches(wanted, actual[position]):
                position += 1
            elif entry.done:
                found = actual[position] if position < len(actual) else "nothing"
                return f"event {position}, call {number} of {len(entries)}: {found}, not {wanted}"
            else:
                break  # the call was left before this
    if position != len(actual):
        return f"{len(actual) - position} events that no call made: {actual[position:][:3]}"
    return None
