// Registrations of unwind tables that could not be forwarded to the host's unwinding library.
//
// Their deregistrations must not be forwarded either: libgcc aborts the program when a table is deregistered that was
// not registered. So the pointers are kept in a set. It is lock-free and async-signal-safe, and needs no system call
// for its first 4,096 members, because the host may have forbidden system calls.
#pragma once

namespace heapprof::hooks {

/// Adds the registration of `table`, and notes the first one in the trace.
void add_dropped_registration(const void* table) noexcept;

/// Removes `table` and returns whether its registration was dropped. After the set has been full, returns true for
/// every table that is not in it: a table that stays registered in libgcc does less harm than an abort.
bool remove_dropped_registration(const void* table) noexcept;

/// Removes `table` when a new registration of this address is forwarded: the program has reused the memory of the
/// dropped table without deregistering it.
void forget_dropped_registration(const void* table) noexcept;

/// Notes in the trace, at its end, how many registrations were dropped.
void note_dropped_registrations() noexcept;

}  // namespace heapprof::hooks
