/* What the recorder takes from libc, all of it. Linked in libc's place (it carries its name), so that
 *
 *  - a function that is not here fails the link: nothing slips in that allocates, locks or sets errno;
 *  - the versions asked for are those of preload/arch/ARCHITECTURE/libc.map, whatever libc the build machine has;
 *  - what newer libcs add (__libc_single_threaded, _dl_find_object) stays a weak reference without version,
 *    which an older one leaves null. Linked against the real libc it would be a required version, and the
 *    library would not load there.
 *
 * The definitions are empty: only names, kinds and versions matter. */
#define FUNCTION(name) \
  void name(void) {}

/* The program's environment. One variable with three names. */
char** __environ;
extern char** environ __attribute__((alias("__environ")));
extern char** _environ __attribute__((alias("__environ")));

/* The kernel's parameters; the clock, read without a system call. */
FUNCTION(clock_gettime)
FUNCTION(getauxval)

/* Memory and text. On x86-64 the library has its own (intercept/x86_64/memory_functions.cpp). */
#ifndef __x86_64__
FUNCTION(memchr)
FUNCTION(memcmp)
FUNCTION(memcpy)
FUNCTION(memmove)
FUNCTION(memset)
FUNCTION(strlen)
#endif

/* How LZ4 ends a process whose stack was overwritten. */
FUNCTION(__stack_chk_fail)
