// Whether a signal went to the whole process group or to one process of it. siginfo_t does not tell: kill(-group)
// looks like kill(pid) to each that it reaches. So a process that does nothing, a witness, is put into the group with
// all signals blocked: one that is pending there as well was sent to the group.
//
// The kernel signals a group's members in one go, the youngest first (kernel/signal.c, __kill_pgrp_info; attach_pid
// puts new members in front), so what the launcher got, its witness has got already.
#pragma once

namespace heapprof::launch {

class GroupWitness {
 public:
  /// Forks the witness. All signals that may be asked about must be blocked. Without a witness (no more processes to
  /// be had, no /proc) every signal counts as sent to one process.
  GroupWitness();
  GroupWitness(const GroupWitness&) = delete;
  GroupWitness& operator=(const GroupWitness&) = delete;
  ~GroupWitness();

  /// Whether the witness has got `signal` too since it was last asked; forgets what it has got.
  bool has_got(int signal);

 private:
  int pid_ = -1;
  int socket_ = -1;
};

}  // namespace heapprof::launch
