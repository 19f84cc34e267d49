# shellcheck shell=bash disable=SC2154,SC2153
# Getting the tools: Debian packages, Go builds at the versions that the go.mod files beside this folder pin, and
# image archives. Everything is kept under LAB_DIR with a stamp of what it was made from, and made again only
# when that changes. Sourced by lab.sh.

# Raise it when flags or tags below change: what was built before is then built again.
readonly BUILD_RECIPE=1
# Two compiles at a time is what a small CI machine can bear beside the tests.
readonly BUILD_PARALLEL=${LAB_BUILD_PARALLEL:-2}

provide_tools() {
  check_packages
  check_go
  provide_debs
  build_tool containerd cgo '' github.com/containerd/containerd/v2 version.Version \
    cmd/containerd cmd/ctr cmd/containerd-shim-runc-v2
  build_tool runc cgo seccomp github.com/opencontainers/runc '' ''
  build_tool crictl static '' sigs.k8s.io/cri-tools pkg/version.Version cmd/crictl
  build_images
}

# check_packages installs what must be installed: a C compiler and libseccomp's headers for runc, and the
# commands that the CNI plugins and this script call.
check_packages() {
  local want=(gcc libc6-dev pkg-config libseccomp-dev iptables iproute2 util-linux mount) missing=() package
  type dpkg-query apt-get >/dev/null 2>&1 ||
    die "this needs Debian or Ubuntu (apt-get, dpkg); elsewhere run any containerd and give its socket to journalet"
  for package in "${want[@]}"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  if ((${#missing[@]} > 0)); then
    step "install ${missing[*]}" apt_install "${missing[@]}"
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
  need=$(awk '$1 == "go" {print $2}' "$SRC"/{containerd,crictl,runc,images}/go.mod | sort -V | tail -n 1)
  have=$(cd "$SRC/containerd" && go env GOVERSION) ||
    die "Go $need or newer is needed: install it from https://go.dev/dl, or set GOTOOLCHAIN=auto"
  have=${have#go}
  [[ $(printf '%s\n%s\n' "$need" "${have%% *}" | sort -V | head -n 1) == "$need" ]] ||
    die "Go $need or newer is needed and this is $have: install it from https://go.dev/dl"
}

# provide_debs unpacks packages into LAB_DIR/deb instead of installing them: busybox-static would push out the machine's
# busybox, and the containerd package would start a system-wide one.
provide_debs() {
  local packages=(busybox-static containernetworking-plugins) package
  [[ $LAB_CONTAINERD != debian ]] || packages+=(containerd runc)
  for package in "${packages[@]}"; do
    [[ -d $LAB_DIR/deb/$package ]] || step "unpack Debian's $package" unpack_deb "$package"
  done
}

unpack_deb() {
  local package=$1 work=$LAB_DIR/deb/.$1.part
  rm -rf "$work"
  mkdir -p "$work/download"
  cd "$work/download" || exit 1
  apt-get download -q "$package" || { apt-get update -q && apt-get download -q "$package"; } ||
    die "apt-get could not download $package: check the network and /etc/apt/sources.list"
  dpkg-deb -x ./*.deb "$work/root"
  mv "$work/root" "$LAB_DIR/deb/$package"
  rm -rf "$work"
}

# stamp prints what a build depends on: the contents of the given files, and the compiler.
stamp() {
  { cat "$@"; go env GOVERSION GOARCH; } | sha256sum | cut -c1-32
}

# build_tool builds packages of one pinned module into BIN.
# Arguments: folder, cgo or static, build tags, module, the version variable ('' for none), packages in the
# module ('' for its root).
build_tool() {
  local dir=$1 linking=$2 tags=$3 module=$4 variable=$5 want
  shift 5
  want=$(stamp "$SRC/$dir/go.mod" "$SRC/$dir/go.sum")-$BUILD_RECIPE
  if [[ -e $BIN/.$dir.stamp && $(<"$BIN/.$dir.stamp") == "$want" ]]; then
    return
  fi
  local version
  version=$(cd "$SRC/$dir" && GOWORK=off go list -mod=readonly -m -f '{{.Version}}' "$module") ||
    die "the Go module $module could not be found: check the network and GOPROXY"
  step "build $dir $version" go_build "$dir" "$linking" "$tags" "$module" "$variable" "$version" "$@"
  printf '%s\n' "$want" >"$BIN/.$dir.stamp"
}

go_build() {
  local dir=$1 linking=$2 tags=$3 module=$4 variable=$5 version=$6 flags='-s -w' packages=() package cgo=1
  shift 6
  [[ $linking == cgo ]] || cgo=0
  [[ -z $variable ]] || flags+=" -X $module/$variable=$version"
  for package in "$@"; do
    packages+=("$module${package:+/$package}")
  done
  mkdir -p "$BIN/.$dir.part"
  cd "$SRC/$dir" || exit 1
  GOWORK=off CGO_ENABLED=$cgo go build -mod=readonly -buildvcs=false -trimpath -p "$BUILD_PARALLEL" \
    -tags "$tags" -ldflags "$flags" -o "$BIN/.$dir.part/" "${packages[@]}"
  # Renamed over the old one: a running containerd keeps its own file.
  mv -f "$BIN/.$dir.part"/* "$BIN/"
  rmdir "$BIN/.$dir.part"
}

build_images() {
  local busybox=$LAB_DIR/deb/busybox-static/bin/busybox want
  want=$(stamp "$SRC"/images/*.go "$SRC"/images/go.* "$SRC"/images/pause/pause.c "$busybox")
  if [[ -e $LAB_DIR/images/stamp && $(<"$LAB_DIR/images/stamp") == "$want" ]]; then
    return
  fi
  step "make images" make_images "$busybox"
  printf '%s\n' "$want" >"$LAB_DIR/images/stamp"
}

make_images() {
  local out=$LAB_DIR/images
  mkdir -p "$out"
  gcc -Os -static -s -Wall -Wextra -o "$out/pause" "$SRC/images/pause/pause.c"
  cd "$SRC/images" || exit 1
  GOWORK=off go run -mod=readonly -buildvcs=false -p "$BUILD_PARALLEL" . -busybox "$1" -pause "$out/pause" -out "$out"
}
