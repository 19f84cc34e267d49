#!/usr/bin/env bash
# Measures journalet and the floor on a private runtime, and prints both side by side.
# N pods (default 50); RUNS of each; KUBELET=path of a kubelet binary adds it to the table.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
export LAB_NAME=${LAB_NAME:-bench}
N=${N:-50}
WORKERS=${WORKERS:-4}
results=${RESULTS:-$root/.lab/bench-results.jsonl}
work=$(mktemp -d)
# A kubelet leaves its pods' mounts behind.
trap 'awk -v d="$work/" "index(\$2, d) == 1 { print \$2 }" /proc/mounts | sort -r | xargs -r umount -l; rm -rf "$work"' EXIT
mkdir -p "$work/pods" "$(dirname "$results")"
: >"$results"

deploy/lab/lab.sh up
eval "$(deploy/lab/lab.sh env)"
(cd test/bench && go build -o "$work/bench" .)
measure() { "$work/bench" -cri "$LAB_ENDPOINT" -runtime-pid "$(cat "$LAB_PIDFILE")" -n "$N" "$@" | tee -a "$results"; }

measure -name journalet -manifests "$work/pods" -limit "${LIMIT:-90s}" -skip init -log "$work/journalet.log" -- \
	"$root/bin/journalet" run --container-runtime-endpoint "$LAB_ENDPOINT" --static-pod-path "$work/pods" \
	--root-dir "$work/root" --hostname-override bench --healthz-port 0 --max-pods 500 --allow-beside-kubelet ${ARGS:-}
measure -name floor -raw "$WORKERS"
if [ -n "${KUBELET:-}" ]; then
	sed -e "s#@ENDPOINT@#$LAB_ENDPOINT#; s#@PODS@#$work/pods#; s#@POD_LOGS@#$work/kubelet-logs#" test/bench/kubelet.yaml.in >"$work/kubelet.yaml"
	measure -name kubelet -manifests "$work/pods" -limit 300s -log "$work/kubelet.log" -- \
		"$KUBELET" --config "$work/kubelet.yaml" --root-dir "$work/kubelet" --hostname-override bench
fi
echo
"$work/bench" -table "$results"
