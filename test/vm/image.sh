#!/usr/bin/env bash
# Prints a directory with the virtual machine's disk, kernel and initial RAM disk, and builds it first if there is none:
# Debian bookworm with systemd, containerd 1.6, runc, CNI plugins and AppArmor. About a minute; needs root and apt-get.
# The directory is named after all that it is built from, so that a change here builds another.
set -euo pipefail

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# In the user's cache, so that another clone has it too.
CACHE=${VM_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/journalet/vm}
readonly SUITE=bookworm
# busybox-static and catatonit become the two container images, as in the lab.
readonly PACKAGES=systemd-sysv,udev,kmod,dbus,libpam-systemd,apparmor,iproute2,iptables,procps,containerd,runc,\
containernetworking-plugins,linux-image-cloud-amd64,busybox-static,catatonit,nfs-common,nfs-kernel-server
readonly DISK_SIZE=3G # sparse; a third is in use

say() { printf 'vm: %s\n' "$*" >&2; }
die() {
  say "error: $*"
  exit 1
}

# provide installs what the build and the machine need on this side.
provide() {
  local missing=()
  command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
  command -v debootstrap >/dev/null || missing+=(debootstrap)
  command -v mke2fs >/dev/null || missing+=(e2fsprogs)
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || die "install ${missing[*]}: there is no apt-get to do it with"
  say "install ${missing[*]}"
  {
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
  } >&2
}

# mirror prints where apt takes Debian's packages from, so that the build needs no other way out.
mirror() {
  local url
  url=$(apt-get indextargets --format "\$(CODENAME) \$(REPO_URI)" 'Identifier: Packages' 2>/dev/null |
    awk -v suite=$SUITE '$1 == suite { print $2; exit }')
  printf '%s\n' "${url:-http://deb.debian.org/debian}"
}

key() {
  cat "$REPO/test/vm/image.sh" "$REPO"/deploy/lab/images/*.go | sha256sum | cut -c1-16
}

# configure sets what the machine's own boot needs. What the agent needs, the test installs.
configure() {
  local root=$1
  printf 'node\n' >"$root/etc/hostname"
  printf '127.0.0.1 localhost node\n' >"$root/etc/hosts"
  printf '/dev/vda / ext4 rw,noatime 0 0\n' >"$root/etc/fstab"
  # Loaded by name: CNI's plugins do not load them, and the boot does not wait for udev to.
  printf '%s\n' overlay bridge veth br_netfilter virtio_console >"$root/etc/modules-load.d/node.conf"
  printf 'net.ipv4.ip_forward = 1\n' >"$root/etc/sysctl.d/node.conf"
  # The emulated processor claims to virtualize: nothing here needs that, and the modules take seconds to load.
  printf 'blacklist %s\n' kvm kvm_amd kvm_intel >"$root/etc/modprobe.d/node.conf"
  # Profiles of programs that are not here: to load them takes seconds of the emulated processor.
  rm -f "$root"/etc/apparmor.d/lsb_release "$root"/etc/apparmor.d/nvidia_modprobe
  # The test's program is on the second disk: this image does not change with it.
  cat >"$root/etc/systemd/system/guest.service" <<'UNIT'
[Unit]
Description=Commands of the test
# The port is there when udev has named it.
Requires=dev-virtio\x2dports-journalet.device
After=dev-virtio\x2dports-journalet.device
[Service]
ExecStartPre=/bin/mount -o ro /dev/vdb /mnt
ExecStart=/mnt/guest
StandardError=journal+console
OOMScoreAdjust=-1000
UNIT
  ln -s ../guest.service "$root/etc/systemd/system/multi-user.target.wants/guest.service"
  # The test of NFS starts its server by itself.
  rm -f "$root"/etc/systemd/system/*.wants/{nfs-server,nfs-client,rpcbind,nfs-blkmap,rpc-statd}*
  local timer
  for timer in apt-daily apt-daily-upgrade dpkg-db-backup e2scrub_all fstrim; do
    rm -f "$root/etc/systemd/system/timers.target.wants/$timer.timer"
  done
}

build() {
  local out=$1 root=$1/root
  mkdir -p "$root"
  debootstrap --variant=minbase --include="$PACKAGES" "$SUITE" "$root" "$(mirror)" >"$out/debootstrap.log" 2>&1 ||
    { tail -n 20 "$out/debootstrap.log" >&2; die "debootstrap failed"; }
  rm -rf "$root"/var/cache/apt/archives "$root"/var/lib/apt/lists "$root"/usr/share/{doc,man,locale}
  configure "$root"
  (cd "$REPO" && go run -buildvcs=false ./deploy/lab/images -busybox "$root/bin/busybox" \
    -pause "$(find "$root/usr/bin" "$root/usr/libexec" -name catatonit -type f | head -n 1)" -out "$root/root")
  mv "$root"/boot/vmlinuz-* "$out/vmlinuz"
  mv "$root"/boot/initrd.img-* "$out/initrd"
  mke2fs -q -t ext4 -d "$root" "$out/disk" "$DISK_SIZE"
  rm -rf "$root"
}

main() {
  local dir begun=$SECONDS
  ((EUID == 0)) || die "run it as root: debootstrap and the kernel's files need it"
  provide
  dir=$CACHE/$(key)
  mkdir -p "$CACHE"
  exec 9>"$CACHE/lock"
  flock 9
  if [[ ! -e $dir ]]; then
    say "build Debian $SUITE"
    # Those of before, unless another checkout has used them lately.
    find "$CACHE" -mindepth 1 -maxdepth 1 -type d \( -mtime +14 -o -name part \) -exec rm -rf {} +
    build "$CACHE/part" >&2
    mv "$CACHE/part" "$dir"
    say "built after $((SECONDS - begun)) s: $dir"
  fi
  touch "$dir"
  printf '%s\n' "$dir"
}

main
