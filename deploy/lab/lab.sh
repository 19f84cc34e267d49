#!/usr/bin/env bash
# lab.sh runs a private containerd or CRI-O, with runc, CNI and two images, for `make run` and the integration tests.
# It touches the machine only where it must: missing Debian packages, ip_forward, one bridge and its iptables rules.
# See README.md beside it. Start reading at main, at the end.
set -euo pipefail

SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
REPO=$(cd "$SRC/../.." && pwd -P)
LAB_NAME=${LAB_NAME:-default}
LAB_CONTAINERD=${LAB_CONTAINERD:-auto}
LAB_DIR=$(realpath -m "${LAB_DIR:-$REPO/.lab}")
BIN=$LAB_DIR/bin
HOME_DIR=$LAB_DIR/labs/$LAB_NAME

readonly PAUSE_IMAGE=registry.k8s.io/pause:3.10
readonly BUSYBOX_IMAGE=docker.io/library/busybox:1.36
readonly READY_SECONDS=60 # the runtime to a CRI that answers; under 2 s on an idle machine
readonly STOP_SECONDS=15  # the runtime from SIGTERM to gone, then SIGKILL

# shellcheck source=lib/common.sh
source "$SRC/lib/common.sh"
# shellcheck source=lib/variant.sh
source "$SRC/lib/variant.sh"
# shellcheck source=lib/build.sh
source "$SRC/lib/build.sh"
# shellcheck source=lib/network.sh
source "$SRC/lib/network.sh"
# shellcheck source=lib/runtime.sh
source "$SRC/lib/runtime.sh"

# set_paths derives every path and name of this lab from LAB_DIR, LAB_NAME and what the lab was created with, so that
# each command, in any process, finds the same lab without asking.
set_paths() {
  [[ $LAB_NAME =~ ^[a-z0-9][a-z0-9-]{0,23}$ ]] ||
    die "LAB_NAME '$LAB_NAME' must be 1 to 24 of a-z, 0-9 and -, not beginning with -"
  [[ $LAB_DIR =~ ^[A-Za-z0-9/._+@-]+$ && $LAB_DIR != / ]] ||
    die "LAB_DIR '$LAB_DIR' may hold only letters, digits and / . _ + @ -: set LAB_DIR to another directory"
  choose_runtime
  # shellcheck source=lib/containerd.sh
  source "$SRC/lib/$LAB_RUNTIME.sh"
  ID=$(printf '%s' "$HOME_DIR" | sha256sum | cut -c1-6)
  STATE=$HOME_DIR/state
  if ((${#STATE} > MAX_STATE_PATH)); then
    STATE=/run/journalet-lab-$ID
  fi
  ROOT=$HOME_DIR/root
  SOCKET=$STATE/$LAB_RUNTIME.sock
  ENDPOINT=unix://$SOCKET
  CONFIG=$HOME_DIR/${RUNTIMES[$LAB_RUNTIME]}
  LOG=$HOME_DIR/$LAB_RUNTIME.log
  PIDFILE=$HOME_DIR/$LAB_RUNTIME.pid
  NETWORK=journalet-lab-$ID
  BRIDGE=jl-${LAB_NAME:0:5}-$ID # an interface name holds 15 characters: 3 + 5 + 1 + 6
  # Links to this lab's programs, so that labs of every variant may run side by side: see record_variant.
  TOOLS=$HOME_DIR/bin RUNC=$TOOLS/runc
}

# create_directories creates the directories that labs of one LAB_DIR share.
create_directories() {
  mkdir -p "$BIN" "$LAB_DIR/logs" "$LAB_DIR/labs"
  # The whole directory is the lab's and never committed, whatever the checkout's own .gitignore says.
  [[ -e $LAB_DIR/.gitignore ]] || printf '*\n' >"$LAB_DIR/.gitignore"
}

# cmd_tools gets what is missing, for an `up` where there is no network to get it by.
cmd_tools() {
  need_root
  create_directories
  with_lock "$LAB_DIR/build.lock" get_tools
}

get_tools() {
  keep_runtime
  choose_variant
  provide_tools
}

cmd_up() {
  need_root
  local begun=$EPOCHREALTIME
  create_directories
  with_lock "$LAB_DIR/build.lock" prepare
  with_lock "$LAB_DIR/$LAB_NAME.lock" bring_up
  say "up in $(since "$begun"): $ENDPOINT"
}

# prepare is what labs of one LAB_DIR must not do at the same time.
prepare() {
  get_tools
  record_variant
  record_runtime
  reserve_subnet
}

# bring_up starts what does not run and imports what is missing; on a running lab it only checks.
bring_up() {
  if runtime_runs && [[ ! -S $SOCKET ]]; then
    step "kill a $LAB_RUNTIME whose directory was deleted" kill_runtime
  fi
  if ! runtime_runs; then
    # A first start, or one after somebody deleted the directory (`git clean`) of a lab that had pods.
    [[ -e $STATE/boot_id ]] || step "remove leftovers" remove_pod_traces
    write_config
    step "start $(runtime_title)" start_runtime
  fi
  step "wait until CRI answers" wait_ready
  step "images" import_images
}

cmd_down() {
  need_root
  mkdir -p "$LAB_DIR"
  with_lock "$LAB_DIR/$LAB_NAME.lock" take_down
  say "down; $LAB_DIR keeps the tools, for the next up"
}

# remove_pod_traces removes what pods leave on the machine outside the lab's directory.
remove_pod_traces() {
  remove_leftovers
  remove_network
  forget_attachments
}

take_down() {
  if runtime_runs; then
    step "remove pods" remove_pods
    step "stop $LAB_RUNTIME" stop_runtime
  fi
  step "remove leftovers" remove_pod_traces
  remove_tree "$STATE"
  remove_tree "$HOME_DIR"
}

# cmd_reboot is a power cut of the node as an agent sees it: every process and mount is gone at once, images and
# stopped containers' records on disk are still there.
cmd_reboot() {
  need_lab
  with_lock "$LAB_DIR/$LAB_NAME.lock" power_cycle
}

power_cycle() {
  step "kill $LAB_RUNTIME" kill_runtime
  step "remove leftovers" remove_leftovers
  step "remove network" remove_network
  remove_tree "$STATE"
  step "start $LAB_RUNTIME" start_runtime
  step "wait until CRI answers" wait_ready
}

cmd_restart_runtime() {
  need_lab
  with_lock "$LAB_DIR/$LAB_NAME.lock" restart_runtime
}

restart_runtime() {
  step "stop $LAB_RUNTIME" stop_runtime
  step "start $LAB_RUNTIME" start_runtime
  step "wait until CRI answers" wait_ready
}

cmd_kill_runtime() {
  need_lab
  with_lock "$LAB_DIR/$LAB_NAME.lock" kill_runtime
  say "$LAB_RUNTIME killed; its pods keep running; 'up' or 'restart-runtime' starts it again"
}

# cmd_status ends with 0 when the CRI answers and 1 when it does not.
cmd_status() {
  if ! runtime_runs; then
    say "$LAB_NAME is down ($HOME_DIR)"
    return 1
  fi
  need_root
  say "$LAB_NAME: $(runtime_title), pid $(runtime_pid), bridge $BRIDGE $(<"$HOME_DIR/subnet"), log $LOG"
  cri_answers || { say "CRI does not answer at $ENDPOINT: see $LOG"; return 1; }
  say "CRI answers at $ENDPOINT; $(cri count)"
}

# cmd_crictl runs crictl on the lab, and builds it before its first use: no other command needs it.
cmd_crictl() {
  need_lab
  with_lock "$LAB_DIR/build.lock" provide_crictl
  exec "$BIN/crictl" --config "$HOME_DIR/crictl.yaml" "$@"
}

# cmd_env prints what a shell needs: eval "$(deploy/lab/lab.sh env)".
cmd_env() {
  printf 'export %s=%q\n' \
    LAB_NAME "$LAB_NAME" LAB_DIR "$LAB_DIR" LAB_HOME "$HOME_DIR" LAB_BIN "$BIN" LAB_STATE "$STATE" \
    LAB_RUNTIME "$LAB_RUNTIME" LAB_CONTAINERD "$LAB_CONTAINERD" \
    LAB_ENDPOINT "$ENDPOINT" LAB_LOG "$LOG" LAB_PIDFILE "$PIDFILE" \
    LAB_CNI_CONF_DIR "$HOME_DIR/cni/net.d" LAB_CNI_BIN_DIR "$HOME_DIR/cni/bin" LAB_BRIDGE "$BRIDGE" \
    CONTAINER_RUNTIME_ENDPOINT "$ENDPOINT" IMAGE_SERVICE_ENDPOINT "$ENDPOINT" CRI_CONFIG_FILE "$HOME_DIR/crictl.yaml"
  # shellcheck disable=SC2016 # the reader's PATH, not ours
  printf 'export PATH=%q:"$PATH"\n' "$TOOLS:$BIN"
}

usage() {
  cat <<'USAGE'
usage: [LAB_NAME=default] [LAB_DIR=.lab] [LAB_RUNTIME=containerd|crio] [LAB_CONTAINERD=auto|system|debian|built] \
       lab.sh COMMAND

  tools            get what is missing, and start nothing
  up               get what is missing, start the runtime, import images; again: only checks
  down             remove the lab's pods, runtime, network and data; keep the tools
  status           what runs; exit status 0 if the CRI answers
  endpoint         print the CRI endpoint, unix:///...
  env              print shell settings (eval them): endpoint, directories, PATH with ctr
  crictl ARGS      crictl on the lab; built the first time
  restart-runtime  stop and start the runtime; pods keep running (also restart-containerd)
  kill-runtime     SIGKILL to the runtime; pods keep running, nothing answers (also kill-containerd)
  reboot           as after a power cut: every process of every pod dies, the disk stays

LAB_RUNTIME: crio compiles a pinned CRI-O; its runc is what LAB_CONTAINERD says.
LAB_CONTAINERD: system takes containerd, ctr, its shim and runc from PATH; debian unpacks the distribution's packages;
built compiles pinned releases; auto is system where PATH has them, else debian. A lab keeps what it was created with.
USAGE
}

main() {
  set_paths
  case ${1:-} in
  tools) cmd_tools ;;
  up) cmd_up ;;
  down) cmd_down ;;
  status) recorded_variant && cmd_status ;;
  endpoint) printf '%s\n' "$ENDPOINT" ;;
  env) recorded_variant && cmd_env ;;
  crictl) cmd_crictl "${@:2}" ;;
  restart-runtime | restart-containerd) cmd_restart_runtime ;;
  kill-runtime | kill-containerd) cmd_kill_runtime ;;
  reboot) cmd_reboot ;;
  -h | --help | help) usage ;;
  *) usage >&2 && exit 2 ;;
  esac
}

main "$@"
