/*
 * pause holds a pod's namespaces open. It is PID 1 of the sandbox (and, with a
 * shared PID namespace, of the whole pod), so it has two duties only: reap
 * whatever is re-parented to it, and go at once when asked to.
 *
 * C and static: a Go runtime would cost every pod several threads and a
 * megabyte for a process that sleeps all its life.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

int main(void) {
  sigset_t set;
  int sig;

  /* Blocked, then taken one by one by sigwait: no handler, no async-signal
   * rules, and nothing is lost between two waits. As PID 1 an unblocked,
   * unhandled SIGTERM would be ignored by the kernel. */
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGCHLD);
  if (sigprocmask(SIG_BLOCK, &set, NULL) != 0) {
    perror("pause: block signals");
    return 1;
  }
  for (;;) {
    if (sigwait(&set, &sig) != 0) {
      continue;
    }
    if (sig != SIGCHLD) {
      return 0;
    }
    /* Several children's ends may be merged into one signal. */
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
  }
}
