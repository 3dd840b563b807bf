// Finds out whether a signal was sent to the process group or to one process of it. siginfo_t does not show it:
// kill(-group) looks like kill(pid) to each member. So the detector forks an idle process into the group that blocks
// all signals: a signal that is pending there too was sent to the group.
//
// The kernel signals the members of a group in one go, the youngest first (kernel/signal.c, __kill_pgrp_info;
// attach_pid adds new members in front). So when the launcher receives a signal, the idle process has received it
// already.
#pragma once

namespace heapprof::launch {

class GroupSignalDetector {
 public:
  /// Forks the idle process. All signals that was_sent_to_group() is called for must be blocked. Where it cannot be
  /// forked, or without /proc, every signal counts as sent to one process.
  GroupSignalDetector();
  GroupSignalDetector(const GroupSignalDetector&) = delete;
  GroupSignalDetector& operator=(const GroupSignalDetector&) = delete;
  ~GroupSignalDetector();

  /// Whether `signal` is pending in the idle process; clears all that is pending there.
  bool was_sent_to_group(int signal);

 private:
  bool wait_for_answer() const;

  int pid_ = -1;
  int socket_ = -1;
};

}  // namespace heapprof::launch
