package main // go run . nats://HOST:PORT NODE KEYFILE prints every event of a node once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

func main() {
	key, err := nats.NkeyOptionFromSeed(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	last := []uint64{0, 0, 0} // the position of the last event: epoch, record, index
	for ; ; time.Sleep(300 * time.Millisecond) {
		log.Print(observe(os.Args[1], os.Args[2], key, last))
	}
}

// observe prints what follows the last event, first from the journal, then live, until the connection ends.
func observe(server, node string, key nats.Option, last []uint64) error {
	nc, err := nats.Connect(server, key, nats.NoReconnect())
	if err != nil {
		return err
	}
	defer nc.Close()
	live, err := nc.SubscribeSync("event." + node + ".>") // before reading: nothing is between past and live
	var page struct {
		Events     []json.RawMessage
		Next, Last uint64
	}
	for err == nil && page.Next <= page.Last {
		after := fmt.Sprintf(`{"after":{"epoch":%d,"seq":%d,"index":%d}}`, last[0], last[1], last[2])
		var m *nats.Msg
		if m, err = nc.Request("journalet."+node+".events.read", []byte(after), 5*time.Second); err == nil {
			err = errors.Join(json.Unmarshal(m.Data, &page), emit(last, page.Events...)) // an error has no body
		}
	}
	for err == nil {
		var m *nats.Msg
		if m, err = live.NextMsgWithContext(context.Background()); err == nil {
			err = emit(last, m.Data)
		}
	}
	return err
}

// emit prints the events after the last one; the others were read from the journal before.
func emit(last []uint64, events ...json.RawMessage) error {
	for _, raw := range events {
		var e struct {
			Epoch, Seq, Index uint64
			Event             string
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		at := []uint64{e.Epoch, e.Seq, e.Index}
		if slices.Compare(at, last) <= 0 {
			continue
		}
		if e.Event == "events_missed" {
			return errors.New("the agent did not send all events: connect again and read them")
		}
		fmt.Println(string(raw))
		copy(last, at)
	}
	return nil
}
