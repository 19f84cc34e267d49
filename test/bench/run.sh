#!/usr/bin/env bash
# Measures journalet and the floor on a private runtime, and prints both side by side.
# N is one or more numbers of pods (default 50), with a table for each. Each agent is measured RUNS times (default 1),
# the agents in turn. KUBELET, the path of a kubelet binary, adds it to the table. SCENARIOS, IDLE, WINDOW: see -only,
# -idle, -window in main.go. SCENARIOS=probes measures probes alone, without a floor: without an agent nothing probes.
# SCENARIOS=cluster measures nodes of a cluster instead, ours and the kubelet of test/cluster (test/cluster/bench), and
# SCENARIOS=csi the same with pods that have volumes of a CSI driver.
set -euo pipefail
cd "$(dirname "$0")/../.."
source test/bench/common.sh
results=${RESULTS:-$root/.lab/bench-results.jsonl}
mkdir -p "$(dirname "$results")"
: >"$results"
# The last --container-runtime-endpoint counts, and a kubelet's flag before its file.
through=()
[ "${SCENARIOS:-}" != probes ] || through=(--container-runtime-endpoint @CRI@)
measure() {
	bench -n "$pods" ${SCENARIOS:+-only "$SCENARIOS"} ${IDLE:+-idle "$IDLE"} ${WINDOW:+-window "$WINDOW"} "$@" |
		tee -a "$results"
}

if [ "${SCENARIOS:-}" = cluster ] || [ "${SCENARIOS:-}" = csi ]; then
	[ "$SCENARIOS" = cluster ] || set -- -csi
	go build -o "$work/cluster" ./test/cluster/bench
	"$work/cluster" -cri "$LAB_ENDPOINT" -runtime-pid "$(cat "$LAB_PIDFILE")" -program "$root/bin/journalet" \
		-n "${N:-50}" -runs "${RUNS:-1}" "$@" ${IDLE:+-idle "$IDLE"} ${LOGS:+-logs "$LOGS"} ${ARGS:-} | tee -a "$results"
	"$work/bench" -table "$results"
	exit
fi

for pods in ${N:-50}; do
	for ((run = 0; run < ${RUNS:-1}; run++)); do
		# Each starts with an empty directory: the agent would fold an earlier run's journal.
		data=$work/root-$pods-$run
		measure -name journalet -manifests "$work/pods" -limit "${LIMIT:-90s}" -log "$work/journalet.log" \
			-into "$root/bin/journalet --root-dir $data" \
			-size "$root/bin/journalet journal size -o json --root-dir $data" \
			-ready "$root/bin/journalet observe --event pod_status_changed --from 1 -o json --root-dir $data" -- \
			"${journalet[@]}" --root-dir "$data" --container-log-max-size 2Gi "${through[@]}" ${ARGS:-}
		[ "${SCENARIOS:-}" = probes ] || measure -name floor -raw "$WORKERS" -limit "${LIMIT:-90s}"
		if [ -n "${KUBELET:-}" ]; then
			data=$work/kubelet-$pods-$run
			sed -e "s#@ENDPOINT@#$LAB_ENDPOINT#; s#@PODS@#$work/pods#; s#@POD_LOGS@#$work/kubelet-logs#" \
				test/bench/kubelet.yaml.in >"$work/kubelet.yaml"
			measure -name kubelet -manifests "$work/pods" -limit 300s -log "$work/kubelet.log" \
				-ready "unix://$data/pods-api/pods-api.sock" -- \
				"$KUBELET" --config "$work/kubelet.yaml" --root-dir "$data" --hostname-override bench "${through[@]}"
		fi
	done
done
"$work/bench" -table "$results"
