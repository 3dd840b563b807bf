"""Executes a command with a recorder, in a process to which process_vm_readv is forbidden, as in many containers:

    forbid.py RECORDER COMMAND...
"""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL_WITH_EPERM = 0x7fff0000, 0x00050001
PROCESS_VM_READV = 310  # x86-64

program = b"".join(struct.pack("<HBBI", *instruction) for instruction in (
    (LOAD_NUMBER, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, PROCESS_VM_READV), (RETURN, 0, 0, FAIL_WITH_EPERM),
    (RETURN, 0, 0, ALLOW)))
instructions = ctypes.create_string_buffer(program, len(program))
libc = ctypes.CDLL(None, use_errno=True)


class Filter(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


arguments = Filter(len(program) // 8, ctypes.addressof(instructions))
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or \
        libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(arguments), 0, 0):
    sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execve(sys.argv[2], sys.argv[2:], dict(os.environ, LD_PRELOAD=sys.argv[1]))
