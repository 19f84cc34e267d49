#!/usr/bin/env bash
# Installs Debian's Chromium for the tests and pictures of the timeline's page, unless there is one.
set -euo pipefail

command -v chromium >/dev/null && exit 0
command -v apt-get >/dev/null || {
  echo "chromium.sh: this needs Debian or Ubuntu (apt-get); elsewhere install a chromium yourself" >&2
  exit 1
}
export DEBIAN_FRONTEND=noninteractive
get=(apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core)
"${get[@]}" || { apt-get update -q && "${get[@]}"; } || {
  echo "chromium.sh: apt-get could not install chromium: check the network and /etc/apt/sources.list" >&2
  exit 1
}
