# The common start of the scripts in this directory: a private runtime, the bench, and a work directory that is removed
# at the end.
root=$PWD
export LAB_NAME=${LAB_NAME:-bench} LAB_CONTAINERD=${LAB_CONTAINERD:-built}
WORKERS=${WORKERS:-4} # the floor's concurrent calls, as many as the agent's default
work=$(mktemp -d)
# Agents leave their pods' mounts, and a killed bench its slow disk.
trap 'awk -v d="$work/" "index(\$2, d) == 1 { print \$2 }" /proc/mounts | sort -r | xargs -r umount -l
rm -rf "$work"' EXIT
mkdir -p "$work/pods"

deploy/lab/lab.sh up
eval "$(deploy/lab/lab.sh env)"
(cd test/bench && go build -o "$work/bench" .)
bench() { "$work/bench" -cri "$LAB_ENDPOINT" -runtime-pid "$(cat "$LAB_PIDFILE")" "$@"; }
# The agent's command without its --root-dir.
journalet=("$root/bin/journalet" run --container-runtime-endpoint "$LAB_ENDPOINT" --static-pod-path "$work/pods"
	--hostname-override bench --healthz-port 0 --max-pods 500 --allow-beside-kubelet
	--eviction-hard "memory.available<100Mi") # the machine's disks are not what is measured
