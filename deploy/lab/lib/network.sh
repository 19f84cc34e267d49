# shellcheck shell=bash disable=SC2154,SC2153
# The lab's own bridge network: a subnet that nobody on this machine uses, CNI configuration in a private directory,
# and the removal of both. Sourced by lab.sh.

# Labs live in 10.208.0.0/12, one /20 each: 256 labs of 4093 pods.
readonly SUBNET_COUNT=256

# subnet_of prints the nth lab subnet.
subnet_of() {
  printf '10.%d.%d.0/20' $((208 + $1 / 16)) $(($1 % 16 * 16))
}

# choose_subnet prints the lab's subnet: the one it had, else the first free one from a place that depends on
# the lab's id, so that labs of several checkouts rarely meet.
choose_subnet() {
  local first=$((16#$ID % SUBNET_COUNT)) try subnet
  if [[ -e $HOME_DIR/subnet ]]; then
    cat "$HOME_DIR/subnet"
    return
  fi
  for ((try = 0; try < SUBNET_COUNT; try++)); do
    subnet=$(subnet_of $(((first + try) % SUBNET_COUNT)))
    if subnet_is_free "$subnet"; then
      printf '%s\n' "$subnet"
      return
    fi
  done
  die "no free subnet in 10.208.0.0/12: stop other labs, or find the routes that cover it with 'ip route'"
}

# subnet_is_free: no route lies within the subnet or covers it (but for the default route), and no other lab has
# reserved it without having run a pod yet.
subnet_is_free() {
  [[ -z $(ip -4 route show root "$1") ]] || return 1
  ! ip -4 route show match "$1" | grep -qv '^default' || return 1
  ! grep -qsxF "$1" "$LAB_DIR"/labs/*/subnet
}

# reserve_subnet writes down the lab's subnet. Runs under the lock that all labs of LAB_DIR share.
reserve_subnet() {
  choose_subnet >"$HOME_DIR/subnet.part"
  mv "$HOME_DIR/subnet.part" "$HOME_DIR/subnet"
}

write_network() {
  local plugins=$LAB_DIR/deb/containernetworking-plugins/usr/lib/cni plugin
  mkdir -p "$HOME_DIR/cni/bin" "$HOME_DIR/cni/net.d"
  # Links, so that a test may put a failing plugin in one lab's place of a good one.
  for plugin in bridge host-local portmap loopback; do
    ln -sf "$plugins/$plugin" "$HOME_DIR/cni/bin/$plugin"
  done
  fill 10-lab.conflist.in >"$HOME_DIR/cni/net.d/10-lab.conflist"
  if [[ $(</proc/sys/net/ipv4/ip_forward) != 1 ]]; then
    printf '1\n' >/proc/sys/net/ipv4/ip_forward ||
      die "net.ipv4.ip_forward is 0 and can't be set: pods need it, run 'sysctl -w net.ipv4.ip_forward=1'"
  fi
}

# forget_attachments removes libcni's records, in its one directory for the whole machine, of pods whose CNI DEL never
# ran.
forget_attachments() {
  local results=/var/lib/cni/results record id
  for record in "$results/$NETWORK"-*; do
    [[ -e $record ]] || continue
    id=${record#"$results/$NETWORK-"}
    rm -f "$record" "$results/cni-loopback-${id%-*}-lo"
  done
}

# remove_network deletes the bridge and the iptables rules of pods whose CNI DEL never ran. The plugins write the
# network's name into a comment on every rule, which is how ours are known; a chain that such a rule is in or jumps to
# is that pod's own when its name ends in a hash.
remove_network() {
  local rules chains=()
  if ip link show "$BRIDGE" >/dev/null 2>&1; then
    ip link delete "$BRIDGE"
  fi
  rules=$(iptables-save -t nat | grep -F "name: \\\"$NETWORK\\\"" | grep '^-A') || return 0
  mapfile -t chains < <(grep -oE '\bCNI-(DN-)?[0-9a-f]{8,}' <<<"$rules" | sort -u)
  # As one transaction, in the format the rules were printed in.
  {
    printf '*nat\n'
    printf '%s\n' "$rules" | sed 's/^-A/-D/'
    printf -- '-F %s\n' "${chains[@]}"
    printf -- '-X %s\n' "${chains[@]}"
    printf 'COMMIT\n'
  } | iptables-restore -w --noflush
}
