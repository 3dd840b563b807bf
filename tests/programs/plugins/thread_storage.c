/* Thread-local storage that the loader allocates at a thread's first use of it. */
static __thread char storage[4096];

char* thread_storage(void) { return storage; }
