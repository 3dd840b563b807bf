/* Merges the same branch into a work tree again and again, as a service that tests whether branches can be merged.
   Usage: merges WORK_TREE TEMPLATE; the template is copied to the work tree first. */
#include <git2.h>
#include <stdio.h>
#include <stdlib.h>

enum { kMerges = 60 };

static void check(int result, const char* what) {
  if (result >= 0) return;
  const git_error* error = giterr_last();
  fprintf(stderr, "%s: %s\n", what, error ? error->message : "failed");
  exit(1);
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  char command[4096];
  snprintf(command, sizeof command, "LD_PRELOAD= cp -r '%s' '%s'", arguments[2], arguments[1]);
  if (system(command) != 0) return 1;
  git_libgit2_init();
  for (int merge = 0; merge < kMerges; ++merge) {
    git_repository* repository;
    git_reference* branch;
    git_annotated_commit* theirs;
    git_object* head;
    check(git_repository_open(&repository, arguments[1]), "open");
    check(git_branch_lookup(&branch, repository, "feature", GIT_BRANCH_LOCAL), "look up the branch");
    check(git_annotated_commit_from_ref(&theirs, repository, branch), "look up the commit");
    git_merge_options options = GIT_MERGE_OPTIONS_INIT;
    git_checkout_options checkout = GIT_CHECKOUT_OPTIONS_INIT;
    checkout.checkout_strategy = GIT_CHECKOUT_FORCE;
    const git_annotated_commit* heads[] = {theirs};
    check(git_merge(repository, heads, 1, &options, &checkout), "merge");
    git_annotated_commit_free(theirs);
    git_reference_free(branch);
    git_repository_free(repository);

    check(git_repository_open(&repository, arguments[1]), "open");
    check(git_repository_state_cleanup(repository), "clean up");
    check(git_revparse_single(&head, repository, "HEAD"), "look up HEAD");
    check(git_reset(repository, head, GIT_RESET_HARD, &checkout), "reset");
    git_object_free(head);
    git_repository_free(repository);
  }
  git_libgit2_shutdown();
  return 0;
}
