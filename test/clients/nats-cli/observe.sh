#!/usr/bin/env bash
# Prints every event of a node once: observe.sh nats://HOST:PORT NODE KEYFILE. Needs nats, jq.
set -uo pipefail
server=$1 node=$2 key=$3
# The last event's position; record and index of the one after it.
last='{"epoch":0,"seq":0,"index":0}' following=1.0

nats_() { nats --server "$server" --nkey "$key" "$@"; }

# fields prints, for each event on stdin, its position, the record and index after it, and the event.
fields() {
  jq --unbuffered -rc '
    def after: if .index + 1 < .of then "\(.seq).\(.index + 1)" else "\(.seq + 1).0" end;
    "\({epoch, seq, index} | tojson) \(if .of > 0 then "\(.seq).\(.index)" else "none" end) \(after) \(tojson)"'
}

# past prints what follows the last event, from the journal.
past() {
  local page position at next event
  while :; do
    page=$(nats_ req "journalet.$node.events.read" "{\"after\":$last}" --raw --timeout 5s 2>/dev/null)
    if ! jq -e .events <<<"$page" >/dev/null 2>&1; then # no agent, or an error
      sleep 0.3
      continue
    fi
    while read -r position at next event; do
      printf '%s\n' "$event"
      last=$position following=$next
    done < <(jq -c '.events[]' <<<"$page" | fields)
    [ "$(jq '.next > .last' <<<"$page")" = false ] || break
  done
}

# Live events. nats connects again by itself and does not say what it missed: what does not follow the last event is
# in the journal, and so is what may be missing after five seconds without any.
while :; do
  past
  while at='' event='' && { read -r -t 5 position at next event || [ $? -gt 128 ]; }; do
    if [ "$at" = "$following" ]; then
      printf '%s\n' "$event"
      last=$position following=$next
    elif [ -z "$event" ] || [ "$at" = none ] || [ "${at%.*}" -ge "${following%.*}" ]; then
      past
    fi
  done < <(nats_ sub --raw "event.$node.>" 2>/dev/null | fields)
  sleep 0.3
done
