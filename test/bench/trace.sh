#!/usr/bin/env bash
# Prints where the time of one pod's start and of a burst of N pods (default 50) goes, as Markdown.
set -euo pipefail
cd "$(dirname "$0")/../.."
source test/bench/common.sh

# The last --container-runtime-endpoint counts.
bench -n "${N:-50}" -name journalet -trace -raw "$WORKERS" -manifests "$work/pods" -limit "${LIMIT:-90s}" \
	-observe "$root/bin/journalet observe --from 1 --no-follow -o json --root-dir $work/root" \
	-log "$work/journalet.log" -- \
	"${journalet[@]}" --root-dir "$work/root" --container-runtime-endpoint @CRI@ ${ARGS:-}
