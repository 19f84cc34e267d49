# shellcheck shell=bash disable=SC2034,SC2154,SC2153
# What is containerd's own in a lab of containerd; runtime.sh says what each function is for. Sourced by lab.sh.

# What LAB_CONTAINERD chooses, and the Debian packages that have it.
readonly PROGRAMS=(containerd ctr containerd-shim-runc-v2 runc)
readonly PACKAGES=(containerd runc)
# A Unix socket's path holds 108 bytes with its final zero. The longest one here is containerd.sock.ttrpc.
readonly MAX_STATE_PATH=80
# The oldest release whose CRI the agent can use; Debian 12 has it.
readonly OLDEST_CONTAINERD=1.6
# From this release on containerd takes the newer configuration format with all that our template sets.
readonly OLDEST_CONFIG_V3=2.1

packages_to_install() {
  [[ $LAB_CONTAINERD != built ]] || printf '%s\n' "${COMPILE_PACKAGES[@]}"
}

system_is_too_old() {
  local version
  version=$(version_of "$(system_program containerd)")
  at_least "$version" "$OLDEST_CONTAINERD" ||
    printf 'the containerd in PATH is %s, not %s or newer' "${version:-unknown}" "$OLDEST_CONTAINERD"
}

provide_runtime() {
  [[ $LAB_CONTAINERD == built ]] || return 0
  build_tool containerd cgo '' github.com/containerd/containerd/v2 version.Version \
    cmd/containerd cmd/ctr cmd/containerd-shim-runc-v2
  build_runc
}

runtime_title() { printf 'containerd %s (%s)' "$(version_of "$TOOLS/containerd")" "$LAB_CONTAINERD"; }

write_runtime_config() {
  mkdir -p "$HOME_DIR/certs.d" "$HOME_DIR/opt"
  local format=v2
  ! at_least "$(version_of "$TOOLS/containerd")" "$OLDEST_CONFIG_V3" || format=v3
  fill "containerd-$format.toml.in" >"$CONFIG"
}

exec_runtime() { exec setsid "$TOOLS/containerd" --config "$CONFIG"; }

ctr_images() { "$TOOLS/ctr" -a "$SOCKET" -n k8s.io images "$@"; }

has_image() { grep -qxF "$1" < <(ctr_images list -q); }

import_image() {
  ctr_images import "$2"
  # No agent's garbage collection may remove it: it cannot be pulled.
  ctr_images label "$1" io.cri-containerd.pinned=pinned >/dev/null
}

end_pods() {
  local socket
  while read -r socket; do rm -f "$socket"; done < <(
    grep -rhoE --include=address --include=bootstrap.json '/run/containerd/s/[0-9a-f]+' "$STATE" 2>/dev/null)
  delete_containers "$STATE"/runc/*/*/
  end_monitors 'containerd-shim*' "$SOCKET"
}
