# Has the agent delay shutdowns and reserve memory, and starts two pods whose preStop hooks take a while and leave a
# line on the node. One requests a huge page.
set -euo pipefail
mkdir -p /var/lib/hooks /etc/systemd/system/journalet.service.d
cat >/etc/journalet/config.yaml <<'CONFIG'
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
imageGCHighThresholdPercent: 100
shutdownGracePeriod: 90s
shutdownGracePeriodCriticalPods: 40s
memoryReservationPolicy: TieredReservation
CONFIG
cat >/etc/systemd/system/journalet.service.d/config.conf <<'UNIT'
[Service]
ExecStart=
ExecStart=/usr/local/bin/journalet run --config /etc/journalet/config.yaml
UNIT
echo vm.nr_hugepages=2 >/etc/sysctl.d/90-pages.conf
sysctl -q -p /etc/sysctl.d/90-pages.conf
systemctl daemon-reload
systemctl restart journalet

pod() {
  cat <<POD
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  $2
  volumes: [{name: hooks, hostPath: {path: /var/lib/hooks}}]
  containers:
  - name: main
    image: docker.io/library/busybox:1.36
    command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 1 & wait \$!; done"]
    volumeMounts: [{name: hooks, mountPath: /hooks}]
    resources: $3
    lifecycle: {preStop: {exec: {command: [sh, -c, "sleep 3; echo $1 >>/hooks/ran"]}}}
POD
}
pod low 'priority: 0' '{requests: {memory: 8Mi}, limits: {hugepages-2Mi: 2Mi}}' >/etc/journalet/pods/low.yaml
pod dns 'priorityClassName: system-node-critical' '{limits: {cpu: 100m, memory: 16Mi}}' >/etc/journalet/pods/dns.yaml
