// Registrations of unwind tables that could not be forwarded to the host's unwinding library.
//
// Their deregistrations must not be forwarded either: libgcc aborts the program when it is given a table that it does
// not know. So the pointers are kept, in a set that is lock-free and async-signal-safe, and that needs no system call
// for its first 4,096 members: the host may have forbidden system calls.
#pragma once

namespace heapprof::hooks {

/// Adds the registration of `table`, and notes the first one in the trace.
void add_dropped_registration(const void* table) noexcept;

/// Removes `table` and returns whether its registration was dropped. Once the set was full, the answer is true for
/// every table that is not in it: a table that libgcc keeps does less harm than the abort.
bool remove_dropped_registration(const void* table) noexcept;

/// Removes `table`, which the program has registered again, and this registration was forwarded. The program had used
/// the memory of the dropped table again without deregistering it.
void forget_dropped_registration(const void* table) noexcept;

/// Notes in the trace, at its end, how many registrations were dropped.
void note_dropped_registrations() noexcept;

}  // namespace heapprof::hooks
