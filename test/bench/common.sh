# What the scripts of this folder begin with: a private runtime, the bench, a folder to work in that is removed at the end.
root=$PWD
export LAB_NAME=${LAB_NAME:-bench} LAB_CONTAINERD=${LAB_CONTAINERD:-built}
WORKERS=${WORKERS:-4} # the floor's calls under way at once, as many as the agent's default
work=$(mktemp -d)
# Agents leave their pods' mounts behind, and a bench that was killed its slow disk.
trap 'awk -v d="$work/" "index(\$2, d) == 1 { print \$2 }" /proc/mounts | sort -r | xargs -r umount -l; rm -rf "$work"' EXIT
mkdir -p "$work/pods"

deploy/lab/lab.sh up
eval "$(deploy/lab/lab.sh env)"
(cd test/bench && go build -o "$work/bench" .)
bench() { "$work/bench" -cri "$LAB_ENDPOINT" -runtime-pid "$(cat "$LAB_PIDFILE")" "$@"; }
# The agent, but for its --root-dir.
journalet=("$root/bin/journalet" run --container-runtime-endpoint "$LAB_ENDPOINT" --static-pod-path "$work/pods"
	--hostname-override bench --healthz-port 0 --max-pods 500 --allow-beside-kubelet)
