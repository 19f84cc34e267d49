// Prints every event of a node once: node observe.js HOST:PORT NODE KEYFILE.
import { readFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { connect, nkeyAuthenticator } from "@nats-io/transport-node";

const [server, node, keyFile] = process.argv.slice(2);
const key = new TextEncoder().encode(readFileSync(keyFile, "utf8").trim());
let last = { epoch: 0, seq: 0, index: 0 }; // the position of the last event

// observe prints what follows the last event, first from the journal, then live, until the connection ends.
async function observe() {
  const nc = await connect({ servers: server, authenticator: nkeyAuthenticator(key), reconnect: false });
  try {
    const live = nc.subscribe(`event.${node}.>`); // before reading: nothing is between past and live
    for (let page = { next: 0, last: 0 }; page.next <= page.last; ) {
      const request = JSON.stringify({ after: last });
      page = (await nc.request(`journalet.${node}.events.read`, request, { timeout: 5000 })).json();
      page.events.forEach(emit);
    }
    for await (const message of live) {
      emit(message.json());
    }
  } finally {
    await nc.close();
  }
}

// emit prints an event that comes after the last one; others were read from the journal before.
function emit(e) {
  if ((e.epoch - last.epoch || e.seq - last.seq || e.index - last.index) <= 0) return;
  if (e.event === "events_missed") throw new Error("the agent did not send all events: connect again and read them");
  console.log(JSON.stringify(e));
  last = { epoch: e.epoch, seq: e.seq, index: e.index };
}

for (;;) {
  await observe().catch((error) => console.error(error.message));
  await setTimeout(300);
}
