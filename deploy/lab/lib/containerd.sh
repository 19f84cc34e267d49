# shellcheck shell=bash disable=SC2154,SC2153
# One containerd from start to end: configuration, start, readiness, images, stop, kill, and removing all that its pods
# leave. Sourced by lab.sh.

# From this release on containerd takes the newer configuration format with all that our template sets.
readonly OLDEST_CONFIG_V3=2.1

# fill prints a template of config/ with this lab's values. Paths hold no '|' and no '&': see set_paths.
fill() {
  sed -e "s|@ROOT@|$ROOT|g" -e "s|@STATE@|$STATE|g" -e "s|@SOCKET@|$SOCKET|g" -e "s|@HOME@|$HOME_DIR|g" \
    -e "s|@RUNC@|$RUNC|g" -e "s|@PAUSE_IMAGE@|$PAUSE_IMAGE|g" -e "s|@NETWORK@|$NETWORK|g" \
    -e "s|@BRIDGE@|$BRIDGE|g" -e "s|@ENDPOINT@|$ENDPOINT|g" \
    -e "s|@SUBNET@|$(cat "$HOME_DIR/subnet" 2>/dev/null)|g" "$SRC/config/$1"
}

write_config() {
  write_network
  mkdir -p "$HOME_DIR/certs.d" "$HOME_DIR/opt"
  fill crictl.yaml.in >"$HOME_DIR/crictl.yaml"
  local format=v2
  ! at_least "$(containerd_version "$CONTAINERD")" "$OLDEST_CONFIG_V3" || format=v3
  fill "containerd-$format.toml.in" >"$CONFIG"
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

containerd_pid() { processes containerd "$CONFIG" | head -n 1; }

containerd_runs() { [[ -n $(containerd_pid) ]]; }

start_containerd() {
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
  PATH=$TOOLS:$PATH setsid "$CONTAINERD" --config "$CONFIG" >>"$LOG" 2>&1 </dev/null 9>&- &
  printf '%d\n' $! >"$PIDFILE"
}

cri_answers() { cri ready >/dev/null 2>&1; }

# starting holds from start_containerd on, also while its process is not yet the program that containerd_runs searches
# for.
starting() {
  local pid
  pid=$(cat "$PIDFILE" 2>/dev/null) && [[ -d /proc/$pid ]] && ! grep -qs '^State:.Z' "/proc/$pid/status"
}

wait_ready() {
  local deadline=$((SECONDS + READY_SECONDS))
  until cri_answers; do
    if ! starting && ! containerd_runs; then
      tail -n 15 "$LOG"
      die "containerd has ended: the reason is in $LOG"
    fi
    ((SECONDS < deadline)) || die "no answer from $ENDPOINT within $READY_SECONDS s: see $LOG"
    sleep 0.1
  done
}

# import_images imports an archive unless the very same one was imported and its image is still there. The stamp
# lives in ROOT: it goes when the images go.
import_images() {
  local pair ref archive have stamp=$LAB_DIR/images/stamp done_stamp=$ROOT/lab-images.stamp
  have=$("$CTR" -a "$SOCKET" -n k8s.io images list -q)
  for pair in "$BUSYBOX_IMAGE busybox" "$PAUSE_IMAGE pause"; do
    read -r ref archive <<<"$pair"
    if cmp -s "$stamp" "$done_stamp" && grep -qxF "$ref" <<<"$have"; then
      continue
    fi
    "$CTR" -a "$SOCKET" -n k8s.io images import "$LAB_DIR/images/$archive.tar"
    # No agent's garbage collection may remove it: it cannot be pulled.
    "$CTR" -a "$SOCKET" -n k8s.io images label "$ref" io.cri-containerd.pinned=pinned >/dev/null
  done
  cp "$stamp" "$done_stamp"
  # The CRI learns of an import by an event, so the first pod could come before it.
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

stop_containerd() {
  local pid
  pid=$(containerd_pid)
  [[ -n $pid ]] || return 0
  kill -TERM "$pid"
  if ! await_exit "$pid" "$STOP_SECONDS"; then
    say "containerd did not end within $STOP_SECONDS s: killed"
    kill_containerd
  fi
  rm -f "$PIDFILE"
}

kill_containerd() {
  local pid
  pid=$(containerd_pid)
  [[ -n $pid ]] || return 0
  kill -KILL "$pid"
  await_exit "$pid" "$STOP_SECONDS" ||
    die "containerd, pid $pid, does not die: the kernel holds it, see 'ps -o stat,wchan $pid'"
  rm -f "$PIDFILE"
}

# remove_pods is the polite way, with CNI DEL for each pod; what it can't do, remove_leftovers does.
remove_pods() {
  cri remove || true
}

# remove_leftovers ends every process, mount and socket of the lab's pods, with no containerd to ask.
remove_leftovers() {
  local container pid target socket
  while read -r socket; do rm -f "$socket"; done < <(
    grep -rhoE --include=address --include=bootstrap.json '/run/containerd/s/[0-9a-f]+' "$STATE" 2>/dev/null)
  for container in "$STATE"/runc/*/*/; do
    [[ -e $container/state.json ]] || continue
    "$RUNC" --root "$(dirname "$container")" delete --force "$(basename "$container")" || true
  done
  for pid in $(processes 'containerd-shim*' "$SOCKET"); do
    # Its containers' first processes, for the case that runc's record of them is gone; their others die with them.
    xargs -r kill -KILL < <(cat "/proc/$pid"/task/*/children 2>/dev/null) || true
    kill -KILL "$pid" || true
    await_exit "$pid" "$STOP_SECONDS" || die "shim $pid does not die: the kernel holds it, see 'ps -o stat,wchan $pid'"
  done
  # Deepest first. A lazy unmount: a process outside the lab may have its working directory there.
  while read -r target; do umount -l "$target"; done < <(
    awk -v a="$STATE/" -v b="$ROOT/" 'index($5, a) == 1 || index($5, b) == 1 {print $5}' /proc/self/mountinfo | sort -r)
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
