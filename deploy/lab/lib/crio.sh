# shellcheck shell=bash disable=SC2034,SC2154,SC2153
# What is CRI-O's own in a lab of CRI-O; runtime.sh says what each function is for. CRI-O, its pinns and crio-load are
# always built, conmon is the distribution's, and LAB_CONTAINERD chooses only runc. Sourced by lab.sh.

readonly PROGRAMS=(runc)
readonly PACKAGES=(runc)
# A Unix socket's path holds 108 bytes with its final zero. The longest one here is attach/, 64 digits and /attach.
readonly MAX_STATE_PATH=28
readonly CRIO_MODULE=github.com/cri-o/cri-o

# conmon is installed, and not unpacked as other packages are: it needs libraries, and starts nothing by itself.
packages_to_install() { printf '%s\n' conmon "${COMPILE_PACKAGES[@]}"; }

system_is_too_old() { :; }

provide_runtime() {
  [[ $LAB_CONTAINERD != built ]] || build_runc
  build_tool crio cgo "$(<"$SRC/crio/tags")" "$CRIO_MODULE" '' cmd/crio ./crio-load
  build_pinns
}

# build_pinns compiles the program that makes the namespaces of pods. It is in CRI-O's module, in C.
build_pinns() {
  local want
  want=$(stamp "$SRC/crio/go.mod")
  [[ ! -e $BIN/.pinns.stamp || $(<"$BIN/.pinns.stamp") != "$want" ]] || return 0
  step "build pinns" compile_pinns
  printf '%s\n' "$want" >"$BIN/.pinns.stamp"
}

compile_pinns() {
  local module
  cd "$SRC/crio" || exit 1
  # What the user's cache has of the programs came perhaps without the module.
  GOWORK=off go mod download "$CRIO_MODULE"
  module=$(GOWORK=off go list -mod=readonly -m -f '{{.Dir}}' "$CRIO_MODULE")
  gcc -std=c99 -O3 -Wall -static -s -o "$BIN/.pinns.part" "$module"/pinns/src/*.c
  mv -f "$BIN/.pinns.part" "$BIN/pinns"
}

runtime_title() { printf 'CRI-O %s (runc %s)' "$(version_of "$BIN/crio")" "$LAB_CONTAINERD"; }

write_runtime_config() {
  # Empty ones keep those of the machine out, and a test may put something there.
  mkdir -p "$HOME_DIR"/{crio.conf.d,registries.conf.d,policies,hooks.d}
  printf '%s\n' '[storage]' 'driver = "overlay"' "graphroot = \"$ROOT\"" "runroot = \"$STATE/storage\"" \
    >"$HOME_DIR/storage.conf"
  printf '{"default": [{"type": "insecureAcceptAnything"}]}\n' >"$HOME_DIR/policy.json"
  # As with containerd, a registry on this machine may speak plain HTTP.
  printf '%s\n' 'unqualified-search-registries = ["docker.io"]' \
    '[[registry]]' 'location = "127.0.0.1"' 'insecure = true' >"$HOME_DIR/registries.conf"
  if ! may_lower_oom_score; then
    fill runc-restricted.in >"$HOME_DIR/runc-restricted"
    chmod 0755 "$HOME_DIR/runc-restricted"
    local RUNC=$HOME_DIR/runc-restricted # for what fill writes next
  fi
  fill crio.conf.in >"$CONFIG"
}

# may_lower_oom_score reports whether the kernel lets us: it takes CAP_SYS_RESOURCE.
may_lower_oom_score() {
  (printf '%d\n' $(($(</proc/self/oom_score_adj) - 1)) >/proc/self/oom_score_adj) 2>/dev/null
}

exec_runtime() {
  mkdir -p "$STATE/tmp"
  export CONTAINERS_STORAGE_CONF=$HOME_DIR/storage.conf
  exec setsid "$BIN/crio" --config "$CONFIG" --config-dir "$HOME_DIR/crio.conf.d" \
    --registries-conf "$HOME_DIR/registries.conf" --registries-conf-dir "$HOME_DIR/registries.conf.d"
}

has_image() { cri images "$1" >/dev/null 2>&1; }

import_image() { CONTAINERS_STORAGE_CONF=$HOME_DIR/storage.conf "$BIN/crio-load" "$1" "$2"; }

end_pods() {
  delete_containers "$STATE"/runc/*/
  end_monitors conmon "--root=$STATE/runc"
}
