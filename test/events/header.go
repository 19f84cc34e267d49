package events

// header is what the page begins with.
const header = `<!-- written by ` + "`make docs`" + ` from proto/journalet/v1 and recorded histories -->

# Events

Every event of the journal in its JSON form: what ` + "`journalet observe -o json`" + ` prints, what observers receive
([OBSERVING.md](OBSERVING.md)), and what ` + "`events.read`" + ` and ` + "`records.read`" + ` return.

A **fact** is something that the agent learned from outside; a **decision** is what an actor made of it. The decisions
of one actor on one record are one record, too. The [glossary](GLOSSARY.md) has the other words.

## The envelope

| field | type | |
|---|---|---|
| ` + "`seq`" + ` | number | The record's number in the journal, from 1, without gaps. |
| ` + "`epoch`" + ` | number | The run of the agent that recorded it, from 1. |
| ` + "`index`" + ` | number | The event's place among the events of its record, from 0. |
| ` + "`of`" + ` | number | How many events the record has; 0 for the notice below. |
| ` + "`time`" + ` | string (RFC 3339) | When it was recorded: UTC, with up to nine digits of a second. |
| ` + "`id`" + ` | string | A decision's id, ` + "`<epoch>.<cause>.<actor>.<index>`" + `. A fact has none. |
| ` + "`cause`" + ` | number | The record that led to the decision. A fact has none. |
| ` + "`author`" + ` | string | The actor that decided, or that a fact is about, as kind/id: ` + "`pod/<uid>`" + `, ` + "`node/0`" + `. |
| ` + "`event`" + ` | string | Its name. |
| ` + "`data`" + ` | object | The event itself, by the fields below. |

` + "`epoch`, `seq` and `index`" + ` are its position, compared in this order. Events are ordered by ` + "`seq`" + ` alone, unless a
journal lost its tail: the next run uses those numbers again, with a new epoch.

Fields have their names in the contract. A field without a value is left out: false, 0, "", an empty list, the first
value of an enum. Numbers of 64 bits are strings. New versions add events, fields and values of enums: a client ignores
what it does not know.

` + "`-o cloudevents`" + ` puts the same ` + "`data`" + ` into a CloudEvent 1.0: id is the position, source ` + "`//journalet/<node>`" + `, type
` + "`io.journalet.<event>.v1`" + `, subject the author, and the extension attributes seq, epoch, cause and decision (the id), all
of them strings.

## Subjects

An event is published on ` + "`event.<node>.<actor kind>.<actor id>.<event>`" + `: the actor is its author, and ` + "`<node>`" + ` the
node's name with ` + "`_`" + ` for each dot. Only events that a client subscribes to are encoded.

## What was not sent

Live events have a bounded share of the machine. The agent reports what it did not send with a notice, which is no event
of the journal, on ` + "`event.<node>.agent.0.events_missed`" + `:

` + "```json" + `
{
  "seq": 700,
  "time": "2026-03-01T12:00:00Z",
  "epoch": 1,
  "index": 0,
  "of": 0,
  "author": "agent/0",
  "event": "events_missed",
  "data": {
    "from": 6,
    "to": 700
  }
}
` + "```" + `

Records ` + "`from`" + ` to ` + "`to`" + ` were not published. Every later event has the header ` + "`Journalet-Live-From`" + ` with the number of the
first record from which on all were published, for clients that subscribe to some events only. Both are ways to see that
something is missing, and where to resume: read the past after the last event that you have.

## All events

An event's category is what it is about, its severity how much it matters to a person; of a range, the content decides.
` + "`observe`" + ` paints by severity, ` + "`timeline`" + ` lists milestones and alerts by it. Neither is in the JSON: both follow from
the event, and are options in the contract (` + "`proto/journalet/v1/kind.proto`" + `).

`
