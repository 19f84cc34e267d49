# Installs a node as kubeadm's users do, with the agent in the kubelet's place. ADDRESS is the machine's, GATEWAY this
# side of its only wire.
set -euo pipefail
wire=$(find /sys/class/net -mindepth 1 ! -name lo -printf '%f\n')
ip address add "$ADDRESS/30" dev "$wire"
ip link set "$wire" up
ip route add default via "$GATEWAY"

install -m 755 /mnt/journalet /usr/local/bin/journalet
ln -s /usr/local/bin/journalet /usr/bin/kubelet
install -m 644 /mnt/kubelet.service /etc/systemd/system/kubelet.service
install -D -m 644 /mnt/10-kubeadm.conf /etc/systemd/system/kubelet.service.d/10-kubeadm.conf
# A drop-in of the configuration: kubeadm leaves that to the operator.
mkdir -p /etc/kubernetes/kubelet.conf.d
cat >/etc/kubernetes/kubelet.conf.d/10-logs.conf <<'CONFIG'
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerLogMaxSize: 3Mi
CONFIG
echo 'KUBELET_EXTRA_ARGS=--config-dir=/etc/kubernetes/kubelet.conf.d' >/etc/default/kubelet
# A packaged kubelet is enabled, and restarts until the machine joins.
systemctl enable kubelet

bash /mnt/runtime.sh
