"""heapprof record: the environment of the program, its signals and its end, and programs that are refused.

Most tests replace the recorder by a library that writes the environment of its process to a file.
"""

import json
import os
import pty
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness

DUMP = r"""
#include <stdio.h>
#include <stdlib.h>
extern char **environ;
__attribute__((constructor)) static void dump(void) {
  const char *path = getenv("DUMP");
  if (!path) return;
  FILE *file = fopen(path, "w");
  for (char **entry = environ; *entry; ++entry) fprintf(file, "%s%c", *entry, 0);
  fclose(file);
}
"""

# The note that Go's linker puts into its programs.
GO_NOTE = r"""
__asm__(".pushsection .note.go.buildid, \"a\", @note\n"
        ".balign 4\n"
        ".long 4, 8, 4\n"
        ".ascii \"Go\\0\\0\"\n"
        ".ascii \"abcdefgh\"\n"
        ".popsection");
int main(void) { return 0; }
"""

# Waits for signals. Python's signal.pause() misses one that comes just before it.
WAITING = r"""
import os, signal
_read_end, _write_end = os.pipe()
os.set_blocking(_write_end, False)
signal.set_wakeup_fd(_write_end)
def wait_for_signals():
    while True: os.read(_read_end, 1)
"""

# Prints the signals that it receives, and exits at SIGTERM.
CATCHER = WAITING + r"""
import sys
def seen(number, frame):
    os.write(1, f"got {number}\n".encode())
    if number == signal.SIGTERM: sys.exit(5)
for number in map(int, sys.argv[1:]): signal.signal(number, seen)
os.write(1, b"ready\n")
wait_for_signals()
"""

# In front of CATCHER: leaves the group.
LEFT_GROUP = r"""
import os
os.setpgid(0, 0)
os.write(1, f"{os.getpid()}\n".encode())
"""

# Prints what it inherited: signals, group, session, terminal, descriptors, limits.
INHERITED = r"""
import os, resource, sys
numbers = sorted(map(int, os.listdir("/proc/self/fd")))  # the descriptor of the listing itself is closed again
where = {n: os.readlink(f"/proc/self/fd/{n}") for n in numbers if os.path.exists(f"/proc/self/fd/{n}")}
out = os.open(sys.argv[1], os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
def put(*values): os.write(out, (" ".join(map(str, values)) + "\n").encode())
for line in open("/proc/self/status"):
    if line.startswith(("SigBlk", "SigIgn")): put(line.strip())
put(os.getpgid(0), os.getsid(0), os.getcwd(), os.umask(0))
put({n: "pipe" if target.startswith("pipe") else target for n, target in where.items()})
put([resource.getrlimit(n) for n in range(16)])
if 7 in where: put(os.read(7, 100))
"""

END_KINDS = {"none": 0, "exit": 1, "exec": 2, "signal": 3, "stopped": 4}


def state_of(pid):
    return harness.process_state(pid)


# A signal to the launcher alone, which it forwards. The launcher reads pending signals in the order of their numbers:
# when it has forwarded this one, it has handled all signals that were sent before.
LAST_SIGNAL = 60


def pending(pid):
    """The pending signals of a process, from /proc/PID/status."""
    with open(f"/proc/{pid}/status") as file:
        (mask,) = (int(line.split()[1], 16) for line in file if line.startswith("ShdPnd"))
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


class Launcher(harness.Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="heapprof-launcher-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        shutil.copy2(harness.HEAPPROF, cls.folder / "heapprof")
        source = cls.folder / "dump.c"
        source.write_text(DUMP)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", cls.folder / "libheapprof.so", source], check=True)

    def setUp(self):
        super().setUp()
        # A separate installation, with the library that replaces the recorder.
        self.prefix = self.dir / "prefix"
        (self.prefix / "bin").mkdir(parents=True)
        (self.prefix / "lib").mkdir()
        self.heapprof_copy = self.prefix / "bin" / "heapprof"
        os.link(self.folder / "heapprof", self.heapprof_copy)  # it has 170 MB
        self.library = self.prefix / "lib" / "libheapprof.so"
        shutil.copy2(self.folder / "libheapprof.so", self.library)

    def command(self, *arguments):
        return [str(self.heapprof_copy), "record", *map(str, arguments)]

    def run_record(self, *arguments, cwd=None, **environment):
        return subprocess.run(self.command(*arguments), env=harness.clean_environment(**environment),
                              cwd=cwd or self.dir, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)

    def environment_given(self, *options, cwd=None, **environment):
        """The environment that a recorded program gets."""
        dump = self.dir / "dump"
        result = self.run_record(*options, "/bin/true", cwd=cwd, DUMP=dump, **environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        entries = dump.read_bytes().decode().split("\0")[:-1]
        dump.unlink()
        return dict(entry.split("=", 1) for entry in entries)

    def refused(self, *arguments, status, words=(), **environment):
        result = self.run_record(*arguments, **environment)
        self.assertEqual(result.returncode, status, f"{arguments}: {result.stderr}")
        lines = result.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        for word in words:
            self.assertIn(str(word), lines[0])

    def script(self, name, text, mode=0o755):
        path = self.dir / name
        path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
        path.chmod(mode)
        return path

    # --- Python's allocator for small blocks ---------------------------------------------------------------

    def test_python_allocations(self):
        """A message where small blocks are hidden, and the option that the message names."""
        show = ["/usr/bin/env", "python3", "-c", "import os; print(os.environ.get('PYTHONMALLOC'))"]
        python = [sys.executable, *show[2:]]
        hint = "--python-allocations"

        def outcome(*arguments, **environment):
            run = self.run_record(*arguments, **environment)
            self.assertEqual(run.returncode, 0, run.stderr)
            return run.stdout.strip(), run.stderr.count(hint)

        self.assertEqual(outcome("--", *python), ("None", 1))
        self.assertEqual(outcome(hint, "--", *python), ("malloc", 0))
        self.assertEqual(outcome(hint, "--", *show), ("malloc", 0))  # also where it is not the program itself
        self.assertEqual(outcome("-q", "--", *python), ("None", 0))
        self.assertEqual(outcome("--", *python, PYTHONMALLOC="debug"), ("debug", 0))
        self.assertEqual(outcome(hint, "--", *python, PYTHONMALLOC="debug"), ("malloc", 0))
        self.assertEqual(outcome("/bin/true"), ("", 0))
        script = self.script("app", f"#!{sys.executable}\nprint(1)\n")
        self.assertEqual(outcome(script), ("1", 1))

    # --- the environment of the program --------------------------------------------------------------------

    def test_environment(self):
        given = self.environment_given()
        self.assertEqual(given["LD_PRELOAD"], str(self.library))
        self.assertEqual(given["HEAPPROF_OUTPUT"], f"{self.dir}/heapprof.%e.%p.heapprof")
        self.assertRegex(given["HEAPPROF_SESSION"], r"^[0-9]+\.[0-9]+$")
        changed = {name for name in given if name.startswith("HEAPPROF_")}
        self.assertEqual(changed, {"HEAPPROF_OUTPUT", "HEAPPROF_SESSION"})

        given = self.environment_given("--children", "--max-depth", "5", "--log-file", "my log", "-o", "x.%p",
                                       "--mmap=off", HEAPPROF_FREE_STACKS="yes", HEAPPROF_MAX_DEPTH="9",
                                       HEAPPROF_OUTPUT="unused")
        self.assertEqual(given["HEAPPROF_CHILDREN"], "on")
        self.assertEqual(given["HEAPPROF_MAX_DEPTH"], "5")
        self.assertEqual(given["HEAPPROF_MMAP"], "off")
        self.assertEqual(given["HEAPPROF_FREE_STACKS"], "yes")
        self.assertEqual(given["HEAPPROF_LOG_FILE"], str(self.dir / "my log"))
        self.assertEqual(given["HEAPPROF_OUTPUT"], str(self.dir / "x.%p"))

        given = self.environment_given(HEAPPROF_OUTPUT="by-variable")
        self.assertEqual(given["HEAPPROF_OUTPUT"], str(self.dir / "by-variable"))
        odd = self.dir / "100%p done"
        odd.mkdir()
        given = self.environment_given("-o", "t", cwd=odd)
        self.assertEqual(given["HEAPPROF_OUTPUT"], str(self.dir / "100%%p done" / "t"))

    def test_other_preloaded_libraries_are_kept(self):
        other = self.dir / "other.so"
        shutil.copy2(self.library, other)
        given = self.environment_given(LD_PRELOAD=f"{other} {self.library}")
        self.assertEqual(given["LD_PRELOAD"], f"{self.library}:{other}")

    def test_session_names_the_process(self):
        out = self.dir / "out"
        program = self.script("p", f'#!/bin/sh\necho $$ $(cut -d " " -f 22 /proc/$$/stat) $HEAPPROF_SESSION >{out}\n')
        self.assertEqual(self.run_record(program).returncode, 0)
        pid, start, session = out.read_text().split()
        self.assertEqual(session, f"{pid}.{start}")

    def inherited(self, prepare):
        """What a program inherits from a caller that ran `prepare`: directly, and recorded."""
        program = [sys.executable, "-c", INHERITED, str(self.dir / "out")]
        texts = []
        for command in (program, self.command("-q", *program)):
            process = self.popen(command, preexec_fn=prepare, close_fds=False, env=harness.clean_environment(),
                                 cwd=self.dir)
            self.assertEqual(process.wait(timeout=60), 0)
            texts.append((self.dir / "out").read_text())
            (self.dir / "out").unlink()
        return texts

    def test_signals_group_and_descriptors_are_those_of_the_caller(self):
        text = self.dir / "seven"
        text.write_text("seven")

        def prepare():
            os.dup2(os.open(text, os.O_RDONLY), 7)
            os.dup2(7, 200)
            signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR1, signal.SIGTERM, 40})
            for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, 41):
                signal.signal(number, signal.SIG_IGN)
            os.umask(0o027)

        directly, recorded = self.inherited(prepare)
        self.assertIn("SigBlk", directly)
        self.assertIn("seven", directly)
        self.assertEqual(directly, recorded)

    def test_closed_standard_streams(self):
        """They are closed in the program too, and no descriptor of heapprof gets their numbers."""
        directly, recorded = self.inherited(lambda: [os.close(number) for number in range(3)])
        self.assertEqual(directly, recorded)

    def test_arguments_are_passed_unchanged(self):
        arguments = ["", "a b", "*", "--help", "-q", "--", "[x]", "{}", "\u00e4\n"]
        result = self.run_record("-q", "printf", "<%s>", *arguments)
        self.assertEqual(result.stdout, "".join(f"<{argument}>" for argument in arguments))

    def test_names_of_programs(self):
        (self.dir / "bin1").mkdir()
        (self.dir / "bin2").mkdir()
        self.script("bin1/tool", "#!/bin/sh\necho one\n", 0o644)  # not executable: skipped
        self.script("bin2/tool", "#!/bin/sh\necho two $0\n")
        path = f"{self.dir}/bin1:{self.dir}/bin2:{os.environ['PATH']}"
        result = self.run_record("-q", "tool", PATH=path)
        self.assertEqual(result.stdout, f"two {self.dir}/bin2/tool\n")
        self.script("here", "#!/bin/sh\necho here\n")
        self.assertEqual(self.run_record("-q", "./here").stdout, "here\n")
        self.assertEqual(self.run_record("-q", "here", PATH=f"{os.environ['PATH']}:").stdout, "here\n")
        # A script without a first line is run by the shell, as by execvp.
        self.script("plain", "echo plain $1 $(basename $0)\n")
        self.assertEqual(self.run_record("-q", "./plain", "x").stdout, "plain x plain\n")
        # argv[0] is the name as given.
        self.assertEqual(self.run_record("-q", "sh", "-c", "cat /proc/$$/cmdline | cut -d '' -f 1 | tr '\\0' '\\n' "
                                         "| head -n 1").stdout, "sh\n")

    # --- the end of the program ----------------------------------------------------------------------------------

    def test_exit_status(self):
        for status in (0, 1, 2, 42, 125, 126, 127, 128, 255):
            self.assertEqual(self.run_record("sh", "-c", f"exit {status}").returncode, status)
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGINT, signal.SIGPIPE, 35):
            self.assertEqual(self.run_record("sh", "-c", f"kill -{int(number)} $$").returncode, 128 + number)

    def test_signals_are_forwarded(self):
        numbers = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH,
                   signal.SIGALRM, signal.SIGPIPE, 40, signal.SIGCONT, signal.SIGTERM]
        process = self.popen(self.command("-q", sys.executable, "-c", CATCHER, *map(int, numbers)),
                             stdout=subprocess.PIPE, env=harness.clean_environment(), cwd=self.dir)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        for number in numbers:
            process.send_signal(number)
            self.assertEqual(process.stdout.readline(), f"got {int(number)}\n".encode())
        self.assertEqual(process.wait(timeout=60), 5)
        process.stdout.close()

    def test_a_signal_to_the_group_arrives_once(self):
        """As from `timeout` or a shell's `kill %1`: the program is in the group too."""
        numbers = [signal.SIGUSR1, signal.SIGHUP, signal.SIGINT, 40, signal.SIGTERM]
        process = self.popen(self.command("-q", sys.executable, "-c", CATCHER, LAST_SIGNAL,
                                          *map(int, numbers)), process_group=0,
                             stdout=subprocess.PIPE, env=harness.clean_environment(), cwd=self.dir)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        seen = []

        def all_handled():
            process.send_signal(LAST_SIGNAL)
            while (line := process.stdout.readline().decode()) != f"got {LAST_SIGNAL}\n":
                self.assertTrue(line, seen)
                seen.append(line.strip())

        for number in numbers[:-1] * 2:
            os.killpg(process.pid, number)
            all_handled()
        process.send_signal(signal.SIGUSR1)  # and one to the launcher alone, which is forwarded
        all_handled()
        os.killpg(process.pid, signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 5)
        seen += process.stdout.read().decode().split("\n")
        process.stdout.close()
        for number in numbers:
            wanted = 1 if number == signal.SIGTERM else 3 if number == signal.SIGUSR1 else 2
            self.assertEqual(seen.count(f"got {int(number)}"), wanted, (number, seen))

    def test_signals_of_the_program_to_its_parent_or_group_are_not_forwarded(self):
        script = (WAITING + "import sys\nn = 0\ndef seen(*_):\n global n; n += 1\n"
                  "signal.signal(signal.SIGUSR1, seen)\n"
                  f"signal.signal({LAST_SIGNAL}, lambda *_: sys.exit(n))\n"
                  "os.kill(os.getppid(), signal.SIGUSR1)\nos.kill(0, signal.SIGUSR1)\n"
                  "os.write(1, b'sent\\n')\nwait_for_signals()\n")
        process = self.popen(self.command("-q", sys.executable, "-c", script), start_new_session=True,
                             stdout=subprocess.PIPE, env=harness.clean_environment(), cwd=self.dir)
        self.assertEqual(process.stdout.readline(), b"sent\n")
        process.send_signal(LAST_SIGNAL)
        self.assertEqual(process.wait(timeout=60), 1)
        process.stdout.close()

    def test_stopping_the_program_alone_does_not_stop_the_launcher(self):
        self.stop_program_alone()

    def test_nor_does_it_after_a_stop_signal_that_the_program_ignores(self):
        self.stop_program_alone(ignored_before=signal.SIGTSTP)

    def stop_program_alone(self, ignored_before=None):
        ignore = f"trap '' {int(ignored_before)}; " if ignored_before else ""
        script = f"trap : {LAST_SIGNAL}; {ignore}echo $$; read word; exit 3"
        process = self.popen(self.command("-q", "sh", "-c", script), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, env=harness.clean_environment(), cwd=self.dir)
        child = int(process.stdout.readline())
        if ignored_before:
            process.send_signal(ignored_before)
        os.kill(child, signal.SIGSTOP)
        harness.wait_until(lambda: state_of(child) == "T", "the program does not stop")
        # The launcher handles SIGCHLD before this signal, which stays pending until the child continues.
        process.send_signal(LAST_SIGNAL)
        harness.wait_until(lambda: LAST_SIGNAL in pending(child), "the launcher forwards nothing")
        self.assertNotEqual(state_of(process.pid), "T")
        os.kill(child, signal.SIGCONT)
        process.communicate(b"word\n", timeout=60)
        self.assertEqual(process.returncode, 3)

    def test_stopping_the_launcher_stops_and_continues_both(self):
        process = self.popen(self.command("-q", "sh", "-c", "echo $$; read word; exit 3"), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, env=harness.clean_environment(), cwd=self.dir,
                             process_group=0)
        child = int(process.stdout.readline())
        process.send_signal(signal.SIGTSTP)
        harness.wait_until(lambda: state_of(child) == "T" and state_of(process.pid) == "T", "the two do not stop")
        process.send_signal(signal.SIGCONT)
        process.communicate(b"word\n", timeout=60)
        self.assertEqual(process.returncode, 3)

    def started_outside(self, *arguments):
        """A process that has left the launcher's group and catches signals; the launcher leads that group."""
        process = self.popen(self.command("-q", sys.executable, "-c", LEFT_GROUP + CATCHER, *map(int, arguments)),
                             stdout=subprocess.PIPE, env=harness.clean_environment(), cwd=self.dir, process_group=0)
        child = int(process.stdout.readline())
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process, child

    def test_signals_to_the_group_reach_a_program_that_left_it(self):
        """As `timeout` does. A shell's job is the leader of its group, and cannot leave it."""
        numbers = [signal.SIGUSR1, signal.SIGINT, 40]
        process, _ = self.started_outside(*numbers, signal.SIGTERM)
        for number in numbers * 2:
            os.killpg(process.pid, number)
            self.assertEqual(process.stdout.readline(), f"got {int(number)}\n".encode())
        os.killpg(process.pid, signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 5)
        process.stdout.close()

    def test_a_program_that_left_the_group_stops_with_the_launcher(self):
        process, child = self.started_outside(LAST_SIGNAL, signal.SIGTERM)

        def both_stop(cause):
            harness.wait_until(lambda: state_of(child) == "T" and state_of(process.pid) == "T",
                               f"{cause}: the two do not stop")
            os.killpg(process.pid, signal.SIGCONT)
            process.send_signal(LAST_SIGNAL)
            self.assertEqual(process.stdout.readline(), f"got {LAST_SIGNAL}\n".encode())
            self.assertNotEqual(state_of(process.pid), "T", cause)
        os.killpg(process.pid, signal.SIGTSTP)
        both_stop("a signal to the group")
        os.kill(child, signal.SIGTTIN)  # as the terminal sends to a program in the background that reads it
        both_stop("a read from the terminal")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 5)
        process.stdout.close()

    # --- on a terminal --------------------------------------------------------------------------------

    def on_terminal(self, *command):
        """Starts `command` as the foreground job of a new terminal; returns its pid and the terminal."""
        pid, terminal = pty.fork()
        if pid == 0:
            try:
                os.chdir(self.dir)
                os.execve(command[0], command, harness.clean_environment())
            finally:
                os._exit(99)
        self.addCleanup(os.close, terminal)
        return pid, terminal

    def read_until(self, terminal, text, seconds=60):
        seen = b""
        end = time.monotonic() + seconds
        while text not in seen and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    seen += os.read(terminal, 4096)
                except OSError:
                    break
        self.assertIn(text, seen)
        return seen

    def test_interrupt_from_the_terminal_arrives_once(self):
        pid, terminal = self.on_terminal(*self.command("-q", sys.executable, "-c", CATCHER, int(signal.SIGINT),
                                                       int(signal.SIGQUIT), int(signal.SIGTERM), LAST_SIGNAL))
        self.read_until(terminal, b"ready")
        seen = b""
        for key, number in ((b"\x03", 2), (b"\x1c", 3)):
            os.write(terminal, key)
            seen += self.read_until(terminal, b"got %d\r" % number)
            os.kill(pid, LAST_SIGNAL)
            seen += self.read_until(terminal, b"got %d\r" % LAST_SIGNAL)
        os.kill(pid, signal.SIGTERM)
        seen += self.read_until(terminal, b"got 15")
        self.assertEqual(seen.count(b"got 2\r"), 1, seen)
        self.assertEqual(seen.count(b"got 3\r"), 1, seen)
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 5)

    def test_interrupt_from_the_terminal_reaches_a_program_that_left_the_group(self):
        pid, terminal = self.on_terminal(*self.command("-q", sys.executable, "-c", LEFT_GROUP + CATCHER,
                                                       int(signal.SIGINT), int(signal.SIGTERM)))
        self.read_until(terminal, b"ready")
        os.write(terminal, b"\x03")
        self.read_until(terminal, b"got 2\r")
        os.kill(pid, signal.SIGTERM)
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 5)

    def test_a_closed_terminal_is_not_that_of_a_program_in_its_own_session(self):
        script = (WAITING + "import sys\nos.setsid()\nseen = []\n"
                  "signal.signal(signal.SIGHUP, lambda *_: seen.append('hangup'))\n"
                  f"signal.signal({LAST_SIGNAL}, lambda *_: (open(sys.argv[1], 'w').write(str(seen)), os._exit(3)))\n"
                  "os.write(1, b'ready')\nwait_for_signals()\n")
        result = self.dir / "seen"
        pid, terminal = pty.fork()
        if pid == 0:
            try:
                os.chdir(self.dir)
                command = self.command("-q", sys.executable, "-c", script, result)
                os.execve(command[0], command, harness.clean_environment())
            finally:
                os._exit(99)
        self.read_until(terminal, b"ready")
        os.close(terminal)
        os.kill(pid, LAST_SIGNAL)
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 3)
        self.assertEqual(result.read_text(), "[]")

    def test_interrupt_ends_the_program_and_then_the_launcher(self):
        pid, terminal = self.on_terminal(*self.command("-q", "sh", "-c", "echo ready; exec sleep 100"))
        self.read_until(terminal, b"ready")
        os.write(terminal, b"\x03")
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 130)

    def test_job_control(self):
        """Ctrl-Z under a shell: the job stops, the shell gets the terminal, fg continues both."""
        if shutil.which("bash") is None:
            self.skipTest("no bash")
        # The prompt comes from the environment: a prompt set by a typed line would also be seen in the line's echo,
        # which stands before or behind the first prompt, as the shell happens to start.
        pid, terminal = self.on_terminal(shutil.which("env"), "PS1=PROMPT", "HISTFILE=", shutil.which("bash"), "--norc",
                                         "--noprofile", "--noediting", "-i")
        self.read_until(terminal, b"PROMPT")
        command = " ".join(self.command("-q", "sh", "-c", "'echo re\"\"ady; read x; echo \"go\"t $x; exit 6'"))
        os.write(terminal, command.encode() + b"\n")
        self.read_until(terminal, b"ready")
        os.write(terminal, b"\x1a")
        self.read_until(terminal, b"PROMPT")
        os.write(terminal, b"jobs\n")
        self.read_until(terminal, b"Stopped")
        os.write(terminal, b"fg\n")
        self.read_until(terminal, b"record")
        harness.wait_until(lambda: os.tcgetpgrp(terminal) != pid, "the job does not get the terminal")
        os.write(terminal, b"word\n")
        self.read_until(terminal, b"got word")
        os.write(terminal, b"echo status $?\n")
        self.read_until(terminal, b"status 6")
        os.write(terminal, b"exit\n")
        os.waitpid(pid, 0)

    # --- refusals -------------------------------------------------------------------------------------

    def test_refused_programs(self):
        marker = self.dir / "ran"
        true = open("/bin/true", "rb").read()
        self.refused("no-such-program", status=127, words=["no-such-program", "PATH"])
        self.refused(self.dir / "missing", status=127, words=["missing"])
        self.refused(self.dir, status=126, words=[self.dir])
        self.refused(self.script("plain", "touch ran\n", 0o644), status=126, words=["plain", "chmod"])
        self.refused(self.script("setuid", true, 0o4755), status=126, words=["setuid", "LD_PRELOAD"])
        self.refused(self.script("setgid", true, 0o2755), status=126, words=["setgid", "LD_PRELOAD"])
        self.refused(self.script("noise", b"\x00\x01\x02\x03 noise\n"), status=126, words=["not a program"])
        self.refused(self.script("cut", true[:80]), status=126, words=["damaged"])
        other_class = bytearray(true)
        other_class[4] = 3 - other_class[4]
        self.refused(self.script("class", bytes(other_class)), status=126, words=["heapprof built for it"])
        other_machine = bytearray(true)
        other_machine[18:20] = struct.pack("<H", 40)
        self.refused(self.script("machine", bytes(other_machine)), status=126, words=["arm"])
        self.refused(self.script("orphan", f"#!{self.dir}/nothing\n"), status=127, words=["interpreter"])
        self.refused(self.script("loop", f"#!{self.dir}/loop\n"), status=126, words=["interpreters"])
        (self.dir / "static.c").write_text("int main(void) { return 0; }\n")
        for name, options in (("static", ["-static"]), ("static-pie", ["-static-pie"])):
            built = subprocess.run(["cc", *options, "-o", self.dir / name, self.dir / "static.c"],
                                   capture_output=True)
            if built.returncode == 0:
                self.refused(self.dir / name, status=126, words=["static"])
                self.refused(self.script("of-" + name, f"#!{self.dir / name}\n"), status=126, words=["static"])
        # Go's linker writes a note into its programs, which strip does not remove.
        (self.dir / "go.c").write_text(GO_NOTE)
        built = subprocess.run(["cc", "-static", "-s", "-o", self.dir / "like-go", self.dir / "go.c"],
                               capture_output=True, text=True)
        if built.returncode == 0:
            self.refused(self.dir / "like-go", status=126, words=["Go program", "runtime/pprof"])
        musl = subprocess.run(["cc", f"-Wl,--dynamic-linker={self.dir}/ld-musl-x86_64.so.1", "-o", self.dir / "musl",
                               self.dir / "static.c"], capture_output=True)
        if musl.returncode == 0:
            self.refused(self.dir / "musl", status=127, words=["ld-musl-x86_64.so.1", "does not exist", "install musl"])
        self.assertFalse(marker.exists())
        self.assertFalse([path.name for path in self.dir.iterdir() if ".heapprof" in path.name])

    def test_invalid_arguments(self):
        marker = self.dir / "ran"
        for options, word in ((("--max-depth", "many"), "65536"), (("--shadow-stack", "perhaps"), "on, off"),
                              (("--no-such-option",), "--no-such-option"), (("-o", ""), "path"),
                              (("--max-file-size", "2GB"), "2G"), (("--log", "loud"), "warn")):
            self.refused(*options, "touch", marker, status=2, words=[word])
        self.refused(status=2, words=["PROGRAM"])
        self.refused("touch", marker, status=2,
                     words=["'maybe' for the environment variable HEAPPROF_MMAP", "on, off"], HEAPPROF_MMAP="maybe")
        self.assertFalse(marker.exists())

    def test_refused_outputs(self):
        marker = self.dir / "ran"
        blocker = self.dir / "blocker"
        blocker.write_text("precious")
        for output, word in ((self.dir, "directory"), (blocker / "x.heapprof", "x.heapprof"),
                             (blocker / "%e" / "x", "blocker"), ("/proc/x.heapprof", "/proc"),
                             (f"{blocker}/", "blocker")):
            self.refused("-o", output, "touch", marker, status=2, words=[word])
        self.refused("-o", blocker, "touch", marker, status=2, words=["--force"])
        self.assertEqual(blocker.read_text(), "precious")
        fifo = self.dir / "fifo"
        os.mkfifo(fifo)
        self.refused("--force", "-o", fifo, "touch", marker, status=2, words=["fifo"])
        self.assertTrue(stat.S_ISFIFO(os.stat(fifo).st_mode))
        self.assertFalse(marker.exists())
        # A name in a variable may be for many runs: the recorder appends .1, .2, ...
        self.assertEqual(self.run_record("true", HEAPPROF_OUTPUT=blocker).returncode, 0)
        self.assertEqual(blocker.read_text(), "precious")
        self.assertEqual(self.run_record("-f", "-o", blocker, "true").returncode, 0)
        self.assertFalse(blocker.exists())

    def test_a_working_directory_that_was_removed(self):
        gone, marker = self.dir / "gone", self.dir / "ran"

        def run_there(*arguments):
            gone.mkdir()
            return subprocess.run(["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *self.command(*arguments)], cwd=gone,
                                  env=harness.clean_environment(), capture_output=True, text=True, timeout=60,
                                  stdin=subprocess.DEVNULL)
        for options, named in (((), "-o"), (("-o", "run.heapprof"), "-o"), (("-o", "folder/"), "-o"),
                               (("-o", self.dir / "x", "--log-file", "log"), "--log-file")):
            result = run_there(*options, "touch", marker)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(f"the working directory has no path (No such file or directory); name the file of {named} ",
                          result.stderr)
        self.assertFalse(marker.exists())
        result = run_there("-o", self.dir / "x", "touch", marker)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(marker.exists())

    def test_the_recorder_must_exist_and_be_preloadable(self):
        self.library.rename(self.dir / "away")
        self.refused("true", status=125, words=["libheapprof.so", "missing"])
        (self.prefix / "preload").mkdir()
        (self.dir / "away").rename(self.prefix / "preload" / "libheapprof.so")
        self.assertEqual(self.environment_given()["LD_PRELOAD"], str(self.prefix / "preload" / "libheapprof.so"))
        for name in ("pre fix", "pre:fix"):
            moved = self.dir / name
            self.prefix.rename(moved)
            self.heapprof_copy = moved / "bin" / "heapprof"
            self.refused("true", status=125, words=["space or a colon"])
            moved.rename(self.prefix)

    def test_the_loader_can_be_recorded_as_a_program(self):
        loader = "/lib64/ld-linux-x86-64.so.2"
        if not os.path.exists(loader):
            self.skipTest("another architecture")
        self.assertEqual(self.run_record(loader, "/bin/sh", "-c", "exit 9").returncode, 9)

    # --- the summary at the end ----------------------------------------------------------------------

    def test_no_trace_is_explained(self):
        result = self.run_record("true")  # the library writes no trace
        self.assertEqual(result.returncode, 0)
        self.assertIn("no trace", result.stderr)
        self.assertEqual(self.run_record("-q", "true").stderr, "")

    def test_help(self):
        result = self.run_record("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for word in ("--output", "--children", "--max-file-size", "126", "127", "PROGRAM"):
            self.assertIn(word, result.stdout)

    def test_children_are_counted(self):
        """With the real recorder: how many processes were recorded, and in which files."""
        folder = self.dir / "traces"
        folder.mkdir()

        def summary_for(pattern, command, **environment):
            result = subprocess.run([str(harness.HEAPPROF), "record", "--children", "-o", folder / pattern, "sh",
                                     "-c",
                                     command], env=harness.clean_environment(**environment), capture_output=True,
                                    text=True, timeout=60)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stderr

        # Earlier traces are not counted.
        summary_for("%e.%p.heapprof", "ls /; ls /; true")
        before = set(folder.iterdir())
        text = summary_for("%e.%p.heapprof", "ls /; (ls /; ls /); true")
        traces = set(folder.iterdir()) - before
        pids = {json.loads(self.heapprof("info", trace, "--json"))["pid"] for trace in traces}
        # The shell itself is not a child; it has one trace.
        self.assertGreaterEqual(len(pids), 4)
        files = f"{folder}/*.*.heapprof"
        self.assertIn(f"  with    {len(pids) - 1} child processes in {len(traces) - 1} traces: {files}\n", text)
        largest = re.findall(r"(?m)^(?:  largest |          )(/.*\.heapprof), peak [\d.]+ ?[KM]?i?B$", text)
        self.assertEqual(len(largest), 3)
        self.assertEqual({str(trace) for trace in traces} & set(largest), set(largest))
        # A shell may allocate in the child before the child executes the other program.
        self.assertRegex(summary_for("one.heapprof", "ls / >/dev/null; true"),
                         rf"\n  with    1 child process in (1 trace|2 traces): {folder}/one\.heapprof\.\*\n")
        self.assertIn("with    no child process that allocated\n", summary_for("alone.heapprof", "true"))

    def summary_of(self, *command, children=False):
        """Records with the real recorder. Returns the summary, and {path: figures} of the traces."""
        folder = self.dir / f"traces-{len(list(self.dir.iterdir()))}"
        result = subprocess.run([str(harness.HEAPPROF), "record", *(["--children"] if children else []), "-o",
                                 folder / "%e.%p.heapprof", *map(str, command)], env=harness.clean_environment(),
                                capture_output=True, text=True, timeout=60, cwd=self.dir)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr, {str(path): self.report(path) for path in folder.iterdir()}

    def program_of_summary(self, summary):
        """The program whose trace the summary is about."""
        first = re.match(r"heapprof: (.*)\n", summary).group(1)
        self.assertEqual(summary.splitlines()[-1], f"  next    heapprof report {first}")
        return os.path.basename(first).split(".")[0]

    def printed_peak(self, report):
        """The peak as heapprof prints it, with three significant digits."""
        value, units = report["heap"]["peak_bytes"], ["B", "KiB", "MiB"]
        while value >= 1023.5 and len(units) > 1:
            value /= 1024
            units.pop(0)
        digits = 0 if units[0] == "B" or value >= 99.95 else 1 if value >= 9.995 else 2
        return f"{value:.{digits}f} {units[0]}"

    def workers(self):
        """Creates wrapper scripts and the program that they execute: worker BYTES."""
        shutil.copy2(harness.program("hello"), self.dir / "worker")
        self.script("inner.sh", '#!/bin/bash\nlist=$(ls /)\nexec ./worker "$@"\n')
        self.script("middle.sh", '#!/usr/bin/env bash\nlist=$(ls /)\nexec ./inner.sh "$@"\n')
        self.script("outer.sh", '#!/usr/bin/env bash\nexec ./middle.sh "$@"\n')

    def test_summary_of_wrappers_that_execute(self):
        """As with version managers: each script executes the next one, all in one process. The earlier programs are
        counted, even if the shell allocates more than the last program."""
        self.workers()
        for bytes_leaked in (5_000_000, 1):
            summary, reports = self.summary_of("./outer.sh", bytes_leaked)
            self.assertGreater(len(reports), 4, reports.keys())
            self.assertEqual(self.program_of_summary(summary), "worker")
            self.assertIn(f"\n  before  {len(reports) - 1} more traces, of other programs that the process "
                          "executed: ", summary)
            summary, reports = self.summary_of("./inner.sh", bytes_leaked)
            self.assertEqual(self.program_of_summary(summary), "worker")
            shell = next(path for path in reports if os.path.basename(path).startswith("bash."))
            self.assertIn(f"\n  before  {shell}, peak {self.printed_peak(reports[shell])}\n", summary)

    def test_summary_of_children(self):
        self.workers()
        self.script("waits.sh", "#!/bin/bash\nls / >/dev/null\n./outer.sh 5000000\nls / >/dev/null\n")
        summary, reports = self.summary_of("./waits.sh", children=True)
        self.assertEqual(self.program_of_summary(summary), "worker")
        self.assertRegex(summary, r"\n  process worker, pid \d+, a child process: ")
        self.assertRegex(summary, r"\n  program /.*/bash\.\d+\.heapprof, peak [\d.]+ KiB, exited with status 0\n")
        # Without --children only the shell is recorded, and the summary has a note about that.
        summary, reports = self.summary_of("./waits.sh")
        self.assertEqual(self.program_of_summary(summary), "bash")
        self.assertIn("child processes of bash were not recorded", summary)
        remedy = re.search(r"record them too: heapprof (record --children -o bash-recordings/ -- ./waits.sh)\n", summary)
        self.assertIsNotNone(remedy, summary)
        again = subprocess.run([str(harness.HEAPPROF), *remedy[1].split()], cwd=self.dir,
                               env=harness.clean_environment(), capture_output=True, text=True, timeout=60)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertTrue(list((self.dir / "bash-recordings").glob("worker.*")))

    def test_children_that_work_are_noted(self):
        """Of a program that is no shell: by the processor time of the children for which it waited."""
        burn = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"
        for own, child, noted in ((0, [sys.executable, "-c", burn.format(0.05)], True), (0.05, ["true"], False),
                                  (0, None, False)):
            start = "" if child is None else f"import subprocess; subprocess.run({child!r})\n"
            summary = self.run_record(sys.executable, "-c", start + burn.format(own)).stderr
            self.assertEqual("were not recorded; they took" in summary, noted, summary)
        self.assertNotIn("not recorded", self.run_record("sh", "-c", "true").stderr)

    def test_the_largest_process_is_the_one_with_the_highest_peak(self):
        """The trace's size is irrelevant: preallocated traces of workers with 10 and 81 MB have the same size."""
        self.workers()
        self.script("pool.sh", "#!/bin/sh\nfor size in 10 81 20 3; do ./worker ${size}000000; done\n")
        summary, reports = self.summary_of("./pool.sh", children=True)
        workers = sorted((path for path in reports if os.path.basename(path).startswith("worker.")),
                         key=lambda path: -reports[path]["heap"]["peak_bytes"])
        self.assertEqual([reports[path]["heap"]["peak_bytes"] // 1_000_000 for path in workers], [81, 20, 10, 3])
        lines = [f"{path}, peak {self.printed_peak(reports[path])}\n" for path in workers[:3]]
        self.assertIn("\n  largest " + "          ".join(lines), summary)
        self.assertEqual(re.match(r"heapprof: (.*)\n", summary).group(1), workers[0])

    def end_of(self, trace):
        with open(trace, "rb") as file:
            file.seek(512)
            return struct.unpack("<Ii", file.read(8))

    def test_the_end_is_written_into_the_trace(self):
        """With the real recorder: how the program ended, which only the parent knows."""
        for command, end in (("exit 3", ("exit", 3)), ("kill -9 $$", ("signal", 9)), ("kill -15 $$", ("signal", 15)),
                             ("exec sh -c 'exit 4'", ("exit", 4))):
            with self.subTest(command=command):
                folder = self.dir / "traces"
                result = subprocess.run([str(harness.HEAPPROF), "record", "-o", folder / "%e.%p.heapprof",
                                         "sh", "-c", command], env=harness.clean_environment(), capture_output=True,
                                        text=True, timeout=60)
                traces = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
                self.assertEqual(len(traces), 2 if command.startswith("exec") else 1)
                ends = sorted(self.end_of(trace) for trace in traces)
                self.assertIn((END_KINDS[end[0]], end[1]), ends)
                if len(ends) == 2:
                    self.assertIn(END_KINDS["exec"], [kind for kind, _ in ends])
                for trace in traces:
                    self.assertIn(str(trace), result.stderr)
                    trace.unlink()

    def test_surviving_processes_are_named(self):
        """A daemon: the started process ends at once, and the summary names the one that still runs."""
        ended = self.run_record("sh", "-c", "sleep 0.01")
        self.assertNotIn("still run", ended.stderr)
        daemon = ("import os, time\n"
                  "pid = os.fork()\n"
                  f"if pid: open('{self.dir}/pid', 'w').write(str(pid)); os._exit(0)\n"
                  "os.dup2(0, 1); os.dup2(0, 2); time.sleep(600)")
        for option, what in (([], "they are recorded with --children only"),
                             (["--children"], "their recordings continue")):
            left = subprocess.run([str(harness.HEAPPROF), "record", *option, "-o", self.dir / "%p.heapprof",
                                   "/usr/bin/python3", "-c", daemon], stdin=subprocess.DEVNULL,
                                  env=harness.clean_environment(), capture_output=True, text=True, timeout=60)
            pid = int((self.dir / "pid").read_text())
            self.addCleanup(os.kill, pid, signal.SIGKILL)
            self.assertIn(f"child processes still run: pid {pid}; {what}\n", left.stderr)

    def test_proc_of_an_outer_pid_namespace(self):
        """If /proc belongs to an outer pid namespace, its pids are those of other processes."""
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        enter = ["unshare", *user, "--pid", "--fork"]
        if not shutil.which("unshare") or \
                subprocess.run([*enter, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("creating a pid namespace is not permitted here")
        trace = self.dir / "inside.heapprof"
        result = subprocess.run([*enter, str(harness.HEAPPROF), "record", "-o", trace, "sh", "-c",
                                 "ls -d / && exit 3"], env=harness.clean_environment(), capture_output=True,
                                text=True, timeout=60)
        self.assertEqual((result.returncode, result.stdout), (3, "/\n"), result.stderr)
        self.assertIn(str(trace), result.stderr)
        self.assertEqual(self.end_of(trace), (END_KINDS["exit"], 3))


if __name__ == "__main__":
    harness.main()
