"""What endangers a recorder of Python frames. Allocates blocks as instant.py does:

    hazards.py HAZARD RESULT [ARGUMENT...]

The result is the file of instant.write(). `forks`: RESULT.PID for each child.
"""

import ctypes
import json
import os
import sys
import threading
import time

import instant
from instant import instants, resume, write

LATE = 1999  # the number of the instant at the end of finalisation


def recursion(depth):
    if depth == 0:
        return instant.instant()
    return recursion(depth - 1)


def finalisation(result):
    """Daemon threads execute Python until the interpreter ends them, and objects are freed while it ends."""
    started = threading.Barrier(5)

    def work():
        resume()
        started.wait()
        kept = []
        while True:
            instant.instant() if len(instants) < 300 else None
            kept = kept[-20:] + [bytes(1000 + len(instants)), recursion]

    def search():
        """Allocates in C, without the interpreter's lock, also while the interpreter frees this thread's frames."""
        found = ctypes.create_string_buffer(256)
        while True:
            instant.libc.glob(b"/usr/*/*", 0, None, found)
            instant.libc.globfree(found)

    for target in 4 * [work] + 8 * [search]:
        threading.Thread(target=target, daemon=True).start()

    class Late:
        """Is freed after the modules, when functions of Python do not work any more."""

        def __init__(self):
            code = Late.__del__.__code__
            self.place = code.co_filename, getattr(code, "co_qualname", code.co_name)
            self.file = os.open(result, os.O_RDWR)

        def __del__(self, malloc=instant.malloc, getframe=sys._getframe, write=os.write,
                    size=instant.FIRST_SIZE + LATE):
            malloc(size); line = getframe().f_lineno
            write(self.file, b'{"late": ["%s", "%s", %d],' % (*map(str.encode, self.place), line))

    started.wait()
    while len(instants) < 100:
        recursion(3)
    with instant.lock:
        done = instants + [None] * (LATE + 1 - len(instants))
    # The late object overwrites the spaces.
    with open(result, "w") as file:
        file.write(" " * 5000 + json.dumps({"first_size": instant.FIRST_SIZE, "instants": done})[1:])
    sys.freed_late = Late()


def forks(result, forking, children):
    """Many forks: `forking` threads fork `children` children each, and every third child forks a grandchild.
    Meanwhile, other threads allocate: in Python, and in C without the interpreter's lock, so that the process forks
    while the recorder works in them."""
    failed = []

    def allocate_in_python():
        while not done:
            recursion(2) if len(instants) < 100 else sorted(range(50), key=str)

    def allocate_in_c():
        found = ctypes.create_string_buffer(256)
        while not done:
            instant.libc.glob(b"/usr/*", 0, None, found)
            instant.libc.globfree(found)
            time.sleep(0.0002)  # so that the recording does not become long

    def in_child(number):
        """Does not return: the child must not execute the rest of the thread."""
        try:
            recursion(number)
            if number % 3 == 0:
                fork_one(None)
            recursion(4)
            thread = threading.Thread(target=recursion, args=(1,))
            thread.start()
            thread.join()
            write(f"{result}.{os.getpid()}")
            os._exit(1 if failed else 0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        os._exit(2)

    def fork_one(number):
        """`number`: of the child among those of its parent; None: it forks none."""
        child = os.fork()
        if child == 0:
            failed.clear()
            in_child(1 if number is None else number)
        recursion(2)
        status = os.waitpid(child, 0)[1]
        if status != 0:
            failed.append(status)

    def fork_all():
        started.wait()
        for number in range(int(children)):
            fork_one(number)

    done = False
    started = threading.Barrier(int(forking))
    allocating = [threading.Thread(target=target) for target in 2 * [allocate_in_python] + 2 * [allocate_in_c]]
    all_forking = [threading.Thread(target=fork_all) for _ in range(int(forking))]
    for thread in allocating + all_forking:
        thread.start()
    for thread in all_forking:
        thread.join()
    done = True
    for thread in allocating:
        thread.join()
    if failed:
        sys.exit(f"children ended with {', '.join(map(hex, failed))}")
    write(result)


def greenlets(result):
    """Switches between stacks, which greenlet copies to the heap and back."""
    import greenlet

    def body(number, left):
        instant.instant()
        if left:
            body(number, left - 1)
            return instant.instant()
        for _ in range(4):
            main.switch()
            instant.instant()

    def through_c(number):
        return sorted([3, 1, 2], key=lambda value: body(number, 2) or value)

    def nested():
        inner = greenlet.greenlet(lambda: [instant.instant(), recursion(2)])
        inner.switch()
        instant.instant()

    main = greenlet.getcurrent()
    waiting = [greenlet.greenlet(body if number % 2 else through_c) for number in range(6)]
    for number, each in enumerate(waiting):
        each.switch(number, number) if number % 2 else each.switch(number)
    turn = 0
    while waiting:
        each = waiting[turn % len(waiting)]
        each.switch()
        instant.instant()
        if each.dead:
            waiting.remove(each)
        turn += 1
    greenlet.greenlet(nested).switch()
    thread = threading.Thread(target=lambda: greenlet.greenlet(nested).switch())
    thread.start()
    thread.join()
    write(result)


def recursion_and_back(result):
    """Depths that grow, shrink, and grow again."""
    def descend(depth, instants_at):
        if depth in instants_at:
            instant.instant()
        if depth:
            descend(depth - 1, instants_at)
        if depth in instants_at:
            instant.instant()

    sys.setrecursionlimit(4000)
    for depth in (1, 700, 2, 3000, 10, 1500, 3000, 0):
        descend(depth, {0, 1, depth // 2, depth})
    write(result)


def thread_exits(result):
    """Threads that a C function ends while they execute Python: pthread_exit, called from two lines of depth 3."""
    pthread_exit = ctypes.CDLL(None).pthread_exit
    # The unwinder that it loads, before there are several threads.
    ctypes.CDLL("libgcc_s.so.1")

    def ends(number):
        resume()
        instant.instant()
        if number:
            ends(number - 1)
        pthread_exit(None)

    for number in range(6):
        threading.Thread(target=ends, args=(number % 3,), daemon=True).start()
        while len(os.listdir("/proc/self/task")) != 1:
            # The thread may wait long for a processor, and each instant has a block that is not freed.
            recursion(number) if len(instants) < 2000 else time.sleep(0.001)
    recursion(3)
    write(result)


def filtered(result):
    """A filter of system calls, which allows all. The recorder cannot know that, and makes none after it."""

    recursion(2)
    prctl = ctypes.CDLL(None).prctl
    allow = ctypes.create_string_buffer(bytes([6, 0, 0, 0, 0, 0, 0xff, 0x7f]), 8)  # RET | K, SECCOMP_RET_ALLOW

    class Filter(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or \
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Filter(1, ctypes.addressof(allow)))):
        sys.exit("prctl failed")
    sys.setrecursionlimit(4000)
    recursion(3000)
    write(result)


def no_memory(result):
    """No memory can be mapped while stacks become deeper than before; afterwards it can. Allocates 20,000 bytes plus the
    depth of the recursion, and 20,100 at the end. In a thread, whose stack has been mapped as a whole."""
    import resource

    malloc, free = instant.malloc, ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]

    def descend(left, depth):
        if left:
            return sorted((left - 1,), key=lambda left: descend(left, depth))
        return free(malloc(20_000 + depth))

    def at_end():
        return malloc(20_100)

    def work():
        descend(2, 2)
        limits = resource.getrlimit(resource.RLIMIT_AS)
        statm = os.open("/proc/self/statm", os.O_RDONLY)
        for depth in range(8, 48, 4):
            # Again each time: something may have been unmapped.
            pages = int(os.pread(statm, 100, 0).split()[0])
            resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize(), limits[1]))
            descend(depth, depth)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        for _ in range(5000):
            free(malloc(40))
        at_end()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def ordinary(result):
    recursion(3)
    sorted([2, 1], key=instant.instant)
    list(map(instant.instant, range(2)))
    write(result)


IN_SUBINTERPRETER = """
import sys
def stack(frame):
    result = []
    while frame is not None:
        code = frame.f_code
        result.append((code.co_filename, getattr(code, "co_qualname", code.co_name), frame.f_lineno))
        frame = frame.f_back
    return result
def inner(size):
    block = bytes(size - 33); instants.append(stack(sys._getframe()))
def outer(size, depth):
    return outer(size, depth - 1) if depth else inner(size)
instants = []
for number in range(8):
    outer(begin + number, number % 3)
    list(map(inner, [begin + 8 + number]))
with open(path, "w") as file:
    file.write(repr(instants[0::2] + instants[1::2]))
"""


def module_of_interpreters():
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    return interpreters


def interpreter_of_another_thread(result):
    """A sub-interpreter that another thread executes than the one that has created it."""
    interpreters = module_of_interpreters()
    created = interpreters.create()
    thread = threading.Thread(target=interpreters.run_string, args=(created, "blocks = [bytes(100000)] * 3"))
    thread.start()
    thread.join()
    interpreters.destroy(created)
    write(result)


def subinterpreters(result):
    """Subinterpreters in the main thread and in others, whose blocks have the next 16 sizes each."""
    interpreters = module_of_interpreters()
    extra = []

    def run(number):
        recursion(1)
        begin = instant.FIRST_SIZE + 1000 + 16 * number
        path = f"{result}.{number}"
        created = interpreters.create()
        failed = interpreters.run_string(created, f"begin = {begin}\npath = {path!r}\n" + IN_SUBINTERPRETER)
        if failed:
            sys.exit(f"in a subinterpreter: {failed}")
        recursion(2)
        interpreters.destroy(created)
        with open(path) as file:
            extra.append((1000 + 16 * number, eval(file.read())))

    run(0)
    for number in (1, 2):
        thread = threading.Thread(target=run, args=(number,))
        thread.start()
        thread.join()
    run(3)
    instants.extend([None] * (1000 - len(instants)))
    for begin, stacks in sorted(extra):
        instants.extend(stacks)
    write(result)


if __name__ == "__main__":
    resume()
    globals()[sys.argv[1]](*sys.argv[2:])
