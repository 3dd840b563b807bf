// For the headers of libstdc++, in place of Debian's file of this name, which needs glibc. libstdc++ has a nearly
// empty one for other systems (config/os/generic/os_defines.h).
#ifndef _GLIBCXX_OS_DEFINES
#define _GLIBCXX_OS_DEFINES 1

#include <locale.h>

// The other files are configured for glibc's locales. Only declarations are needed.
#define __locale_t locale_t

#endif
