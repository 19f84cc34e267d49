# shellcheck shell=bash disable=SC2034,SC2154,SC2153
# A runtime from start to end: configuration, start, readiness, images, stop, kill, and removing all that its pods
# leave. Sourced by lab.sh, which then sources containerd.sh or crio.sh. Each of the two defines what is its own:
#
#   MAX_STATE_PATH        how long the path of the state directory may be
#   PROGRAMS, PACKAGES    the programs that LAB_CONTAINERD chooses, and the Debian packages that have them
#   packages_to_install   prints the Debian packages that have to be installed
#   system_is_too_old     prints why the system's programs can't run a lab, and nothing if they can
#   provide_runtime       builds what is not the system's or Debian's
#   runtime_title         prints name, release and variant
#   write_runtime_config  writes CONFIG and what it names
#   exec_runtime          becomes the runtime's process, in a session of its own
#   has_image             reports whether the runtime has the image $1
#   import_image          imports the image $1 from the archive $2, such that no garbage collection removes it
#   end_pods              ends every process of the lab's pods, with no runtime to ask

# The runtimes, with the file in the lab's directory that is their configuration. It is how a process is known as this
# lab's.
declare -rA RUNTIMES=([containerd]=containerd.toml [crio]=crio.conf)

# choose_runtime replaces what LAB_RUNTIME requests by what the lab was created with, if there is a lab; where it
# requests nothing, a new lab is one of containerd.
choose_runtime() {
  REQUESTED_RUNTIME=${LAB_RUNTIME:-}
  LAB_RUNTIME=$(recorded_runtime)
  LAB_RUNTIME=${LAB_RUNTIME:-${REQUESTED_RUNTIME:-containerd}}
  [[ -n ${RUNTIMES[$LAB_RUNTIME]:-} ]] || die "LAB_RUNTIME '$LAB_RUNTIME' is none of containerd and crio"
}

# recorded_runtime prints what the lab was created with, and nothing where there is no lab.
recorded_runtime() {
  local runtime
  if [[ -e $HOME_DIR/runtime ]]; then
    printf '%s\n' "$(<"$HOME_DIR/runtime")"
    return
  fi
  # `git clean` deletes the record of a lab that runs.
  for runtime in "${!RUNTIMES[@]}"; do
    [[ -z $(processes "$runtime" "$HOME_DIR/${RUNTIMES[$runtime]}") ]] || { printf '%s\n' "$runtime" && return; }
  done
  # A lab that was created before there was a choice.
  [[ ! -e $HOME_DIR/variant ]] || printf 'containerd\n'
}

# record_runtime keeps the choice.
record_runtime() { printf '%s\n' "$LAB_RUNTIME" >"$HOME_DIR/runtime"; }

# keep_runtime refuses to put another runtime on a lab's data.
keep_runtime() {
  [[ -z $REQUESTED_RUNTIME || $REQUESTED_RUNTIME == "$LAB_RUNTIME" ]] ||
    die "lab '$LAB_NAME' was created with LAB_RUNTIME=$LAB_RUNTIME: run 'lab.sh down' first, or choose another LAB_NAME"
}

# fill prints a template of config/ with this lab's values. Paths hold no '|' and no '&': see set_paths.
fill() {
  sed -e "s|@ROOT@|$ROOT|g" -e "s|@STATE@|$STATE|g" -e "s|@SOCKET@|$SOCKET|g" -e "s|@HOME@|$HOME_DIR|g" \
    -e "s|@BIN@|$BIN|g" -e "s|@RUNC@|$RUNC|g" -e "s|@PAUSE_IMAGE@|$PAUSE_IMAGE|g" \
    -e "s|@BUSYBOX_IMAGE@|$BUSYBOX_IMAGE|g" -e "s|@NETWORK@|$NETWORK|g" \
    -e "s|@BRIDGE@|$BRIDGE|g" -e "s|@ENDPOINT@|$ENDPOINT|g" \
    -e "s|@SUBNET@|$(cat "$HOME_DIR/subnet" 2>/dev/null)|g" "$SRC/config/$1"
}

write_config() {
  write_network
  fill crictl.yaml.in >"$HOME_DIR/crictl.yaml"
  write_runtime_config
}

# cri makes the CRI calls of this script: see cri/doc.go.
cri() {
  "$BIN/cri" "$ENDPOINT" "$@"
}

# processes prints the pids of programs named like $1 that have an argument equal to $2. It reads /proc, not pid
# files: a pid may be another's by now, and `git clean` deletes the files of a lab that runs.
processes() {
  local file program
  # The argument goes in by stdin, so that grep does not find itself.
  # shellcheck disable=SC2062 # a file pattern, not grep's
  grep -lsazxF --file=- /proc/[0-9]*/cmdline <<<"$2" | while read -r file; do
    IFS= read -r -d '' program 2>/dev/null <"$file" || continue
    # shellcheck disable=SC2053 # $1 is a pattern
    [[ ${program##*/} != $1 ]] || cut -d / -f 3 <<<"$file"
  done || true
}

runtime_pid() { processes "$LAB_RUNTIME" "$CONFIG" | head -n 1; }

runtime_runs() { [[ -n $(runtime_pid) ]]; }

start_runtime() {
  local boot=/proc/sys/kernel/random/boot_id
  # State belongs to one boot of the machine, but the directory may outlive it: a checkout is on disk.
  if [[ -e $STATE/boot_id && $(<"$STATE/boot_id") != $(<"$boot") ]]; then
    remove_tree "$STATE"
  fi
  mkdir -p "$ROOT" "$STATE"
  chmod 0711 "$ROOT" "$STATE"
  cat "$boot" >"$STATE/boot_id"
  ulimit -n 1048576 2>/dev/null || true
  # A session of its own, no terminal, no lock: it lives on when this script and its shell end.
  PATH=$TOOLS:$PATH exec_runtime >>"$LOG" 2>&1 </dev/null 9>&- &
  printf '%d\n' $! >"$PIDFILE"
}

cri_answers() { cri ready >/dev/null 2>&1; }

# starting holds from start_runtime on, also while its process is not yet the program that runtime_runs searches for.
starting() {
  local pid
  pid=$(cat "$PIDFILE" 2>/dev/null) && [[ -d /proc/$pid ]] && ! grep -qs '^State:.Z' "/proc/$pid/status"
}

wait_ready() {
  local deadline=$((SECONDS + READY_SECONDS))
  until cri_answers; do
    if ! starting && ! runtime_runs; then
      tail -n 15 "$LOG"
      die "$LAB_RUNTIME has ended: the reason is in $LOG"
    fi
    ((SECONDS < deadline)) || die "no answer from $ENDPOINT within $READY_SECONDS s: see $LOG"
    sleep 0.1
  done
}

# import_images imports an archive unless the very same one was imported and its image is still there. The stamp
# lives in ROOT: it goes when the images go.
import_images() {
  local pair ref archive stamp=$LAB_DIR/images/stamp done_stamp=$ROOT/lab-images.stamp
  for pair in "$BUSYBOX_IMAGE busybox" "$PAUSE_IMAGE pause"; do
    read -r ref archive <<<"$pair"
    if ! cmp -s "$stamp" "$done_stamp" || ! has_image "$ref"; then
      import_image "$ref" "$LAB_DIR/images/$archive.tar"
    fi
  done
  cp "$stamp" "$done_stamp"
  # The CRI learns of an import a moment later, so the first pod could come before it.
  local deadline=$((SECONDS + READY_SECONDS))
  until cri images "$PAUSE_IMAGE" "$BUSYBOX_IMAGE" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || die "images were imported but the CRI does not list them: see $LOG"
    sleep 0.1
  done
}

# await_exit waits until a process that may not be our child is gone; it fails after $2 seconds.
await_exit() {
  local deadline=$((SECONDS + $2))
  while [[ -d /proc/$1 ]] && ! grep -qs '^State:.Z' "/proc/$1/status"; do
    ((SECONDS < deadline)) || return 1
    sleep 0.05
  done
}

stop_runtime() {
  local pid
  pid=$(runtime_pid)
  [[ -n $pid ]] || return 0
  kill -TERM "$pid"
  if ! await_exit "$pid" "$STOP_SECONDS"; then
    say "$LAB_RUNTIME did not end within $STOP_SECONDS s: killed"
    kill_runtime
  fi
  rm -f "$PIDFILE"
}

kill_runtime() {
  local pid
  pid=$(runtime_pid)
  [[ -n $pid ]] || return 0
  kill -KILL "$pid"
  await_exit "$pid" "$STOP_SECONDS" ||
    die "$LAB_RUNTIME, pid $pid, does not die: the kernel holds it, see 'ps -o stat,wchan $pid'"
  rm -f "$PIDFILE"
}

# remove_pods is the polite way, with CNI DEL for each pod; what it can't do, remove_leftovers does.
remove_pods() {
  cri remove || true
}

# remove_leftovers ends every process, mount and socket of the lab's pods, with no runtime to ask.
remove_leftovers() {
  local target
  end_pods
  # Deepest first. A lazy unmount: a process outside the lab may have its working directory there.
  while read -r target; do umount -l "$target"; done < <(
    awk -v a="$STATE/" -v b="$ROOT/" 'index($5, a) == 1 || index($5, b) == 1 {print $5}' /proc/self/mountinfo | sort -r)
}

# delete_containers has runc delete the containers of these directories of its state.
delete_containers() {
  local container
  for container in "$@"; do
    [[ -e $container/state.json ]] || continue
    "$RUNC" --root "$(dirname "$container")" delete --force "$(basename "$container")" || true
  done
}

# end_monitors kills the processes that watch containers: programs named like $1 that have an argument equal to $2.
end_monitors() {
  local pid
  for pid in $(processes "$1" "$2"); do
    # Its containers' first processes, for the case that runc's record of them is gone; their others die with them.
    xargs -r kill -KILL < <(cat "/proc/$pid"/task/*/children 2>/dev/null) || true
    kill -KILL "$pid" || true
    await_exit "$pid" "$STOP_SECONDS" ||
      die "$1, pid $pid, does not die: the kernel holds it, see 'ps -o stat,wchan $pid'"
  done
}

# remove_tree deletes a directory of the lab, but never one with something still mounted below: that could be a pod's
# volume with somebody's data.
remove_tree() {
  [[ $1 == "$STATE" || $1 == "$HOME_DIR" ]] || die "refusing to delete $1: not a directory of this lab"
  if awk -v a="$1/" 'index($5, a) == 1 {found = 1} END {exit !found}' /proc/self/mountinfo; then
    die "something is still mounted below $1: see 'findmnt', unmount it and run this again"
  fi
  rm -rf "$1"
}
