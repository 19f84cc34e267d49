package cloudevents

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/recording"
)

// The rules of the specification's JSON schema (CloudEvents 1.0.2, JSON event format), and of its naming of attributes.
var (
	attributeName = regexp.MustCompile(`^[a-z0-9]{1,20}$`)
	mediaType     = regexp.MustCompile(`^[a-z]+/[a-z0-9.+-]+$`)
	// checks hold for the attributes that the specification defines; the required ones are in required.
	checks = map[string]func(string) bool{
		"id":              func(s string) bool { return s != "" },
		"source":          isReference,
		"specversion":     func(s string) bool { return s == "1.0" },
		"type":            regexp.MustCompile(`^([a-z0-9]+\.)+[a-z_]+\.v1$`).MatchString,
		"datacontenttype": mediaType.MatchString,
		"dataschema":      isReference,
		"subject":         func(s string) bool { return s != "" },
		"time": func(s string) bool {
			_, err := time.Parse(time.RFC3339Nano, s)
			return err == nil
		},
	}
	required = []string{"id", "source", "specversion", "type"}
)

func isReference(s string) bool {
	_, err := url.Parse(s)
	return s != "" && err == nil
}

// validate returns what is wrong with a CloudEvent.
func validate(b []byte) (problems []string) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return []string{err.Error()}
	}
	for _, name := range required {
		if _, ok := all[name]; !ok {
			problems = append(problems, "no "+name)
		}
	}
	for name, value := range all {
		if name == "data" {
			continue
		}
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			problems = append(problems, name+" is no string: "+string(value))
		}
		if !attributeName.MatchString(name) || checks[name] != nil && !checks[name](text) || text == "" {
			problems = append(problems, name+" is invalid: "+text)
		}
	}
	return problems
}

func TestEveryRecordedEventIsAValidCloudEventWithAnIDOfItsOwn(t *testing.T) {
	all, err := filepath.Glob("../../../test/simulation/testdata/histories/*.records")
	must.OK(t, err)
	for _, path := range all {
		seen, n := map[string]bool{}, 0
		for _, rec := range recording.Records(t, path) {
			for _, f := range messages.Flatten("node-1.example", rec) {
				n++
				e := New("node-1.example", f)
				b, err := json.Marshal(e)
				must.OK(t, err)
				if problems := validate(b); len(problems) > 0 || seen[e.ID] {
					t.Fatalf("%s: %q, seen before: %t\n%s", path, problems, seen[e.ID], b)
				}
				seen[e.ID] = true
			}
		}
		if n == 0 {
			t.Errorf("%s holds no event", path)
		}
	}
	if len(all) == 0 {
		t.Error("no recorded history")
	}
}

func TestValidationFindsWhatIsWrong(t *testing.T) {
	for name, event := range map[string]string{
		"no source":           `{"specversion":"1.0","id":"1","type":"io.a.v1"}`,
		"a number":            `{"specversion":"1.0","id":"1","type":"io.a.v1","source":"x","seq":3000000000}`,
		"an attribute's name": `{"specversion":"1.0","id":"1","type":"io.a.v1","source":"x","causeText":"y"}`,
		"a time":              `{"specversion":"1.0","id":"1","type":"io.a.v1","source":"x","time":"noon"}`,
	} {
		if len(validate([]byte(event))) == 0 {
			t.Errorf("%s: %s is valid", name, event)
		}
	}
}

func TestCloudEventHoldsTheDecision(t *testing.T) {
	b, err := json.Marshal(New("n", messages.Flat{
		Seq: 7, Epoch: 2, Index: 1, Of: 2, Time: "2026-03-01T12:00:00.5Z", ID: "2.6.pod/u1.1", Cause: 6, Author: "pod/u1",
		Event: "timer_set", Data: json.RawMessage(`{"name":"grace"}`),
	}))
	must.OK(t, err)
	want := `{"specversion":"1.0","id":"2.7.1","source":"//journalet/n","type":"io.journalet.timer_set.v1",` +
		`"subject":"pod/u1","time":"2026-03-01T12:00:00.5Z","datacontenttype":"application/json",` +
		`"seq":"7","epoch":"2","cause":"6",` +
		`"decision":"2.6.pod/u1.1","data":{"name":"grace"}}`
	if string(b) != want {
		t.Errorf("got\n%s\nwant\n%s", b, want)
	}
}
