#!/usr/bin/env bash
# Installs what the example clients need into the directory $1: NATS for JavaScript, and PyNaCl for Debian's Python.
# Commands that are missing it installs with apt-get. What is there already it leaves alone.
set -euo pipefail
to=$1
here=$(cd "$(dirname "$0")" && pwd)

die() { echo "clients: $*" >&2; exit 1; }

missing=()
for pair in node:nodejs npm:npm jq:jq /usr/bin/python3:python3; do
  command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
done
if ((${#missing[@]} > 0)); then
  command -v apt-get >/dev/null || die "install ${missing[*]}: there is no apt-get to do it with"
  [ "$(id -u)" = 0 ] || die "run as root, or install: ${missing[*]}"
  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
fi

# Unpacked, not installed: the machine's Python stays as it is.
if ! PYTHONPATH=$to/python/usr/lib/python3/dist-packages LD_LIBRARY_PATH=$(echo "$to"/python/usr/lib/*-linux-gnu) \
  /usr/bin/python3 -c 'import nacl.signing' 2>/dev/null; then
  command -v apt-get >/dev/null || die "install PyNaCl for /usr/bin/python3: there is no apt-get to do it with"
  rm -rf "$to/python"
  mkdir -p "$to/python/debs"
  cd "$to/python/debs"
  packages=(python3-nacl libsodium23 python3-cffi-backend)
  apt-get download -q "${packages[@]}" 2>/dev/null || { apt-get update -q && apt-get download -q "${packages[@]}"; }
  for deb in *.deb; do dpkg-deb -x "$deb" "$to/python"; done
fi

mkdir -p "$to/javascript"
if ! cmp -s "$here/javascript/package-lock.json" "$to/javascript/package-lock.json"; then
  cp "$here"/javascript/package*.json "$to/javascript/"
  if ! (cd "$to/javascript" && npm ci --no-audit --no-fund --loglevel=error); then
    rm "$to/javascript/package-lock.json"
    die "npm could not install what $here/javascript/package-lock.json lists"
  fi
fi
