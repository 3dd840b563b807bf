/* Defines every symbol of libc that the recorder uses. The recorder is linked with this library, which has libc's
 * soname, instead of libc. Therefore:
 *
 *  - the link fails for any other function of libc, such as one that allocates, locks or sets errno;
 *  - symbol versions are those of preload/arch/ARCHITECTURE/libc.map, whatever libc the build machine has;
 *  - functions of newer libcs (__libc_single_threaded, _dl_find_object) stay weak references without a version, which
 *    are null with an older libc. With the build machine's libc they would get a version, and the recorder could not
 *    be loaded on older systems.
 *
 * The definitions are empty: only names, types and versions matter. */
#define FUNCTION(name) \
  void name(void) {}

/* The program's environment: one variable with three names. */
char** __environ;
extern char** environ __attribute__((alias("__environ")));
extern char** _environ __attribute__((alias("__environ")));

/* The auxiliary vector; and the clock, which is read without a system call. */
FUNCTION(clock_gettime)
FUNCTION(getauxval)

/* Memory and strings. On x86-64 the recorder contains them (intercept/x86_64/memory_functions.cpp). */
#ifndef __x86_64__
FUNCTION(memcmp)
FUNCTION(memcpy)
FUNCTION(memmove)
FUNCTION(memset)
FUNCTION(strlen)
#endif

/* Called by LZ4 when its stack was overwritten. */
FUNCTION(__stack_chk_fail)
