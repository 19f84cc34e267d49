# Installs what the second disk brings: the agent as its unit says, and a container runtime.
set -euo pipefail
install -m 755 /mnt/journalet /usr/local/bin/journalet
install -m 644 /mnt/journalet.service /etc/systemd/system/journalet.service
mkdir -p /etc/journalet/pods
apparmor_parser -r /mnt/profile
bash /mnt/runtime.sh
journalet check
# The disk is small and no registry is there: an image that is collected is gone.
mkdir -p /etc/systemd/system/journalet.service.d
cat >/etc/systemd/system/journalet.service.d/00-images.conf <<'UNIT'
[Service]
ExecStart=
ExecStart=/usr/local/bin/journalet run --image-gc-high-threshold=100 --eviction-hard=memory.available<1Mi
UNIT
# An emulated machine may stand still for the unit's half minute.
cat >/etc/systemd/system/journalet.service.d/00-watchdog.conf <<'UNIT'
[Service]
WatchdogSec=120
UNIT
systemctl daemon-reload
systemctl enable --now journalet
