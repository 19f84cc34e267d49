#!/usr/bin/env bash
# Measures what synced appends cost a burst of N pods (default 50): a burst with each --journal-sync, on the machine's
# disk and on one whose syncs take DELAY (default 10ms) longer, RUNS times (default 3) in turn.
set -euo pipefail
cd "$(dirname "$0")/../.."
source test/bench/common.sh
results=${RESULTS:-$root/.lab/bench-sync-results.jsonl}
mkdir -p "$(dirname "$results")"
: >"$results"
delay=${DELAY:-10ms}
# First test the slow disk. These tests need root and /dev/fuse, so no other target runs them.
(cd test/bench && go test -tags integration ./slowdisk)

for pods in ${N:-50}; do
	for ((run = 0; run < ${RUNS:-3}; run++)); do
		for sync in always interval:250ms; do
			for disk in plain "+$delay"; do
				# The agent's whole directory is on the slow disk.
				data=$work/data-$pods-$run-$sync-$disk
				slow=()
				[ "$disk" = plain ] || slow=(-slow "$data" -delay "$delay")
				bench -n "$pods" -name "$sync $disk" -manifests "$work/pods" -limit "${LIMIT:-90s}" -only burst "${slow[@]}" \
					-log "$work/journalet.log" -- "${journalet[@]}" --root-dir "$data/root" --journal-sync "$sync" ${ARGS:-} |
					tee -a "$results"
			done
		done
	done
done
"$work/bench" -sync-table "$results"
