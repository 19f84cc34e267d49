# shellcheck shell=bash disable=SC2154,SC2153
# Messages, timing, locks and the checks that every command begins with. Sourced by lab.sh.

say() { printf 'lab: %s\n' "$*" >&2; }
die() {
  printf 'lab: error: %s\n' "$*" >&2
  exit 1
}

# since prints the time from $1, an EPOCHREALTIME, to now in seconds with tenths.
since() {
  local from=${1/[.,]/} to=${EPOCHREALTIME/[.,]/}
  local tenths=$(((to - from) / 100000))
  printf '%d.%ds' $((tenths / 10)) $((tenths % 10))
}

# at_least reports whether version $1 is $2 or newer.
at_least() {
  [[ -n $1 && $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]
}

# step runs a command with its output in a log and prints one line with the time it took. On failure the log's end is
# shown and the script ends. The command runs in a subshell: it can't set variables for its caller.
step() {
  local what=$1 begun=$EPOCHREALTIME log rc
  shift
  log=$LAB_DIR/logs/$LAB_NAME-$1.log
  mkdir -p "$LAB_DIR/logs"
  # Not `if (...)`: bash ignores set -e inside a condition.
  set +e
  (
    set -e
    "$@"
  ) >"$log" 2>&1
  rc=$?
  set -e
  if ((rc != 0)); then
    say "$what: FAILED after $(since "$begun"); the end of $log:"
    tail -n 25 "$log" >&2
    exit "$rc"
  fi
  say "$what: $(since "$begun")"
}

# with_lock runs a function while holding the lock file $1, so that two labs or two `up`s do not build or start
# the same thing twice. Daemons must close descriptor 9, else they would hold the lock for ever.
with_lock() {
  local file=$1
  shift
  exec 9>"$file"
  flock -n 9 || {
    say "waiting for another lab.sh that holds $file"
    flock 9
  }
  "$@"
  exec 9>&-
}

need_root() {
  ((EUID == 0)) || die "$LAB_RUNTIME needs root: run this with sudo -E, or as root"
}

need_lab() {
  need_root
  [[ -e $CONFIG ]] || die "there is no lab '$LAB_NAME' in $LAB_DIR: run 'lab.sh up' first"
}
