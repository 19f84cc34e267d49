# Installs the container runtime and its network, and imports the images.
set -euo pipefail
install -D -m 644 /mnt/containerd.toml /etc/containerd/config.toml
install -D -m 644 /mnt/node.conflist /etc/cni/net.d/10-node.conflist
systemctl restart containerd
for image in pause busybox; do
  ctr -n k8s.io images import /root/$image.tar
done
# containerd 1.6 shows imported images to CRI only after its next start.
systemctl restart containerd
