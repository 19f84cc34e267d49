# shellcheck shell=bash disable=SC2034,SC2154,SC2153
# Getting the tools: Debian packages, Go builds and image archives. Everything is kept under LAB_DIR; what takes
# long has a stamp of its inputs and is built again only when they change, once for all checkouts of a user: what is
# built is kept in TOOL_CACHE too. Sourced by lab.sh.

# Raise it when flags or tags below change: what was built before is then built again.
readonly BUILD_RECIPE=1
# Two compiles at a time is what a small CI machine can bear beside the tests.
readonly TOOL_CACHE=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/journalet/lab
readonly BUILD_PARALLEL=${LAB_BUILD_PARALLEL:-2}
# A C compiler, and libseccomp's headers.
readonly COMPILE_PACKAGES=(gcc libc6-dev pkg-config libseccomp-dev)

provide_tools() {
  check_packages
  check_go
  provide_debs
  provide_runtime
  # No stamp: an up-to-date build takes half a second.
  step "build the lab's CRI client" build_cri
  build_images
}

build_runc() { build_tool runc cgo seccomp github.com/opencontainers/runc '' ''; }

provide_crictl() {
  check_go
  build_tool crictl static '' sigs.k8s.io/cri-tools pkg/version.Version cmd/crictl
}

# check_packages installs what must be installed: the commands that the CNI plugins and this script call, and what the
# runtime needs. It lists what it installed in LAB_DIR/installed.
check_packages() {
  local want=(iptables iproute2 util-linux mount) missing=() package
  mapfile -t -O "${#want[@]}" want < <(packages_to_install)
  type dpkg-query apt-get >/dev/null 2>&1 ||
    die "this needs Debian or Ubuntu (apt-get, dpkg); elsewhere run any containerd and give its socket to journalet"
  for package in "${want[@]}"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  if ((${#missing[@]} > 0)); then
    step "install ${missing[*]}" apt_install "${missing[@]}"
    printf '%s\n' "${missing[@]}" >>"$LAB_DIR/installed"
  fi
}

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  local get=(apt-get install -y -q --no-install-recommends "$@")
  "${get[@]}" || { apt-get update -q && "${get[@]}"; } ||
    die "apt-get could not install $*: check the network and /etc/apt/sources.list, then run 'lab.sh up' again"
}

check_go() {
  local need have
  command -v go >/dev/null || die "no go command in PATH: install Go from https://go.dev/dl"
  need=$(awk '$1 == "go" {print $2}' "$REPO/go.mod" "$SRC"/*/go.mod | sort -V | tail -n 1)
  have=$(cd "$SRC/containerd" && go env GOVERSION) ||
    die "Go $need or newer is needed: install it from https://go.dev/dl, or set GOTOOLCHAIN=auto"
  have=${have#go}
  at_least "${have%% *}" "$need" || die "Go $need or newer is needed and this is $have: install it from https://go.dev/dl"
}

# provide_debs unpacks packages into LAB_DIR/deb instead of installing them: busybox-static would push out the machine's
# busybox, and the containerd package would start a system-wide one.
provide_debs() {
  local packages=(busybox-static catatonit containernetworking-plugins) missing=() package
  [[ $LAB_CONTAINERD != debian ]] || packages+=("${PACKAGES[@]}")
  for package in "${packages[@]}"; do
    [[ -d $LAB_DIR/deb/$package ]] || missing+=("$package")
  done
  if ((${#missing[@]} > 0)); then
    step "unpack ${missing[*]}" unpack_debs "${missing[@]}"
  fi
}

unpack_debs() {
  local work=$LAB_DIR/deb/.part package
  rm -rf "$work"
  mkdir -p "$work"
  cd "$work" || exit 1
  apt-get download -q "$@" || { apt-get update -q && apt-get download -q "$@"; } ||
    die "apt-get could not download $*: check the network and /etc/apt/sources.list"
  for package in "$@"; do
    dpkg-deb -x "$package"_*.deb "$work/$package"
    mv "$work/$package" "$LAB_DIR/deb/"
    dpkg-deb -W --showformat '${Package} ${Version} ${Architecture}\n' "$package"_*.deb >>"$LAB_DIR/deb/versions"
  done
  rm -rf "$work"
}

# unpacked prints where a program of an unpacked package is: releases differ in which of these directories they use.
unpacked() {
  local dir
  for dir in "$LAB_DIR"/deb/*/{usr/,}{s,}bin; do
    [[ ! -x $dir/$1 ]] || { printf '%s\n' "$dir/$1" && return; }
  done
  die "no package unpacked in $LAB_DIR/deb holds the program $1: remove that directory and run 'lab.sh up' again"
}

# stamp prints what a build depends on: the contents of the given files, and the compiler.
stamp() {
  { cat "$@"; go env GOVERSION GOARCH; } | sha256sum | cut -c1-32
}

# build_tool builds packages of one pinned module into BIN.
# Arguments: directory, cgo or static, build tags, module, the version variable ('' for none), packages in the
# module ('' for its root), or ./ and a package in the directory itself.
build_tool() {
  local dir=$1 linking=$2 tags=$3 module=$4 variable=$5 want files
  shift 5
  mapfile -t files < <(find "$SRC/$dir" -type f | LC_ALL=C sort)
  want=$(stamp "${files[@]}")-$BUILD_RECIPE
  if [[ -e $BIN/.$dir.stamp && $(<"$BIN/.$dir.stamp") == "$want" ]]; then
    return
  fi
  local kept=$TOOL_CACHE/$dir-$want
  if [[ -d $kept ]]; then
    install_tool "$kept"
    printf '%s\n' "$want" >"$BIN/.$dir.stamp"
    return
  fi
  local version
  version=$(cd "$SRC/$dir" && GOWORK=off go list -mod=readonly -m -f '{{.Version}}' "$module") ||
    die "the Go module $module could not be found: check the network and GOPROXY"
  step "build $dir $version" go_build "$dir" "$linking" "$tags" "$module" "$variable" "$version" "$kept" "$@"
  install_tool "$kept"
  printf '%s\n' "$want" >"$BIN/.$dir.stamp"
}

go_build() {
  local dir=$1 linking=$2 tags=$3 module=$4 variable=$5 version=$6 kept=$7 flags='-s -w' packages=() package cgo=1 part
  shift 7
  [[ $linking == cgo ]] || cgo=0
  [[ -z $variable ]] || flags+=" -X $module/$variable=$version"
  for package in "$@"; do
    [[ $package != ./* ]] || { packages+=("$package") && continue; }
    packages+=("$module${package:+/$package}")
  done
  mkdir -p "$TOOL_CACHE"
  part=$(mktemp -d "$TOOL_CACHE/.part.XXXXXX")
  cd "$SRC/$dir" || exit 1
  GOWORK=off CGO_ENABLED=$cgo go build -mod=readonly -buildvcs=false -trimpath -p "$BUILD_PARALLEL" \
    -tags "$tags" -ldflags "$flags" -o "$part/" "${packages[@]}"
  # Another checkout may have been quicker: what it built is the same.
  mv -T "$part" "$kept" 2>/dev/null || rm -rf "$part"
}

# install_tool copies what is kept in a directory of TOOL_CACHE into BIN.
install_tool() {
  local file part
  for file in "$1"/*; do
    part=$BIN/.${file##*/}.part
    cp "$file" "$part"
    # Renamed over the old one: a running containerd keeps its own file.
    mv -f "$part" "$BIN/${file##*/}"
  done
}

# build_cri uses the flags of the agent's own build, so that the compiler's cache serves both.
build_cri() {
  cd "$REPO" || exit 1
  go build -buildvcs=false -p "$BUILD_PARALLEL" -o "$BIN/cri" ./deploy/lab/cri
}

build_images() {
  local busybox pause want
  busybox=$(unpacked busybox) && pause=$(unpacked catatonit) || exit 1
  want=$(stamp "$SRC"/images/*.go "$busybox" "$pause")
  if [[ -e $LAB_DIR/images/stamp && $(<"$LAB_DIR/images/stamp") == "$want" ]]; then
    return
  fi
  step "build the images" write_images "$busybox" "$pause"
  printf '%s\n' "$want" >"$LAB_DIR/images/stamp"
}

write_images() {
  mkdir -p "$LAB_DIR/images"
  cd "$REPO" || exit 1
  go run -buildvcs=false -p "$BUILD_PARALLEL" ./deploy/lab/images -busybox "$1" -pause "$2" -out "$LAB_DIR/images"
}
