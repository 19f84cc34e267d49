# The units that run /usr/bin/journalet: its own, and kubelet.service where a link of this name leads here.
units=journalet.service
if [ "$(readlink -f /usr/bin/kubelet)" = /usr/bin/journalet ]; then
  units="$units kubelet.service"
fi
