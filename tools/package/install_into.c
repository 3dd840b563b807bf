/* The only program of the image: copies heapprof from the image into a directory, which other containers mount.
 *
 *   usage: /install-into DIRECTORY
 *
 * It is static, because the image has no libc, no shell and no cp. Each file gets its name when it is complete, so
 * that a program which starts meanwhile finds the complete recorder or none. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef SOURCE_DIRECTORY
#define SOURCE_DIRECTORY "/heapprof"
#endif

static unsigned files;

static void fail(const char* what, const char* path) {
  fprintf(stderr, "error: cannot %s %s: %s\n", what, path, strerror(errno));
  exit(1);
}

static void join(char* path, const char* directory, const char* name) {
  if (snprintf(path, PATH_MAX, "%s/%s", directory, name) >= PATH_MAX) {
    errno = ENAMETOOLONG;
    fail("copy to", directory);
  }
}

static void copy_file(const char* from, const char* to, mode_t mode) {
  char fresh[PATH_MAX], buffer[1 << 16];
  if (snprintf(fresh, sizeof fresh, "%s.new", to) >= (int)sizeof fresh) {
    errno = ENAMETOOLONG;
    fail("write", to);
  }
  const int in = open(from, O_RDONLY);
  if (in < 0) fail("read", from);
  unlink(fresh);
  const int out = open(fresh, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (out < 0) fail("write", fresh);
  ssize_t size;
  while ((size = read(in, buffer, sizeof buffer)) > 0)
    for (ssize_t done = 0; done < size;) {
      const ssize_t written = write(out, buffer + done, (size_t)(size - done));
      if (written < 0) fail("write", fresh);
      done += written;
    }
  if (size < 0) fail("read", from);
  /* Not the mode of the umask: the containers that use the files may have other users. */
  if (fchmod(out, mode & 0755) != 0 || close(out) != 0 || rename(fresh, to) != 0) fail("write", to);
  close(in);
  ++files;
}

static void copy_directory(const char* from, const char* to) {
  if (mkdir(to, 0755) == 0) {
    if (chmod(to, 0755) != 0) fail("change the mode of", to);
  } else if (errno != EEXIST) {
    fail("make", to);
  }
  DIR* const directory = opendir(from);
  if (directory == NULL) fail("read", from);
  for (struct dirent* entry; (entry = readdir(directory)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char source[PATH_MAX], target[PATH_MAX];
    join(source, from, entry->d_name);
    join(target, to, entry->d_name);
    struct stat status;
    if (lstat(source, &status) != 0) fail("read", source);
    if (S_ISDIR(status.st_mode)) {
      copy_directory(source, target);
    } else if (S_ISLNK(status.st_mode)) {
      char link[PATH_MAX];
      const ssize_t size = readlink(source, link, sizeof link - 1);
      if (size < 0) fail("read", source);
      link[size] = '\0';
      unlink(target);
      if (symlink(link, target) != 0) fail("write", target);
    } else {
      copy_file(source, target, status.st_mode);
    }
  }
  closedir(directory);
}

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] != '/') {
    fprintf(stderr,
            "usage: /install-into DIRECTORY\n\nCopy heapprof into DIRECTORY (an absolute path), where other "
            "containers mount it.\n");
    return 2;
  }
  copy_directory(SOURCE_DIRECTORY, argv[1]);
  printf("copied %u files to %s\nrecord with LD_PRELOAD=%s/lib/libheapprof.so\n", files, argv[1], argv[1]);
  return 0;
}
