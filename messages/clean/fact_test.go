package clean

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/plain"
)

// check holds Fact to what it promises of any fact.
func check(t *testing.T, e *journaletv1.Event) *journaletv1.Event {
	t.Helper()
	before := proto.CloneOf(e)
	c := Fact(e)
	if !proto.Equal(before, e) {
		t.Fatalf("the fact itself was changed: %.300s", fmt.Sprint(e))
	}
	b, err := messages.Encode(&journaletv1.Record{Seq: 1, Body: &journaletv1.Record_Fact{Fact: c}})
	if err != nil {
		t.Fatalf("%s cannot be stored: %v", messages.EventName(c), err)
	}
	back, err := messages.Decode(b)
	if err != nil || !proto.Equal(back.GetFact(), c) {
		t.Fatalf("%s reads otherwise than it was stored: %v", messages.EventName(c), err)
	}
	if Fact(c) != c {
		t.Fatalf("%s is changed again: %.300s", messages.EventName(c), fmt.Sprint(c))
	}
	again := Fact(proto.CloneOf(e))
	if !proto.Equal(again, c) {
		t.Fatalf("%s becomes one thing or another", messages.EventName(c))
	}
	return c
}

// texts passes the strings of a message with the names of their fields.
func texts(m protoreflect.Message, f func(name, s string)) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				if fd.MapValue().Message() != nil {
					texts(v.Message(), f)
				} else {
					f(Name(fd), v.String())
				}
				return true
			})
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				texts(v.List().Get(i).Message(), f)
			}
		case fd.IsList() && fd.Kind() == protoreflect.StringKind:
			for i := range v.List().Len() {
				f(Name(fd), v.List().Get(i).String())
			}
		case fd.Message() != nil:
			texts(v.Message(), f)
		case fd.Kind() == protoreflect.StringKind:
			f(Name(fd), v.String())
		}
		return true
	})
}

func FuzzFact(f *testing.F) {
	all := kinds(f)
	for i := range all {
		f.Add([]byte("all is fine"), uint16(1), uint8(i))
		f.Add([]byte("\xff\xfe\xc2\x9b31m\x1b]0;title\a\r\n\ttab\u202eodd\u2028\x00"), uint16(700), uint8(i))
		f.Add([]byte("ü\xc3"), uint16(4096), uint8(i))
	}
	f.Fuzz(func(t *testing.T, raw []byte, times uint16, kind uint8) {
		if len(raw) == 0 || len(raw) > 1<<10 {
			return
		}
		long, n := strings.Repeat(string(raw), max(1, min(int(times), 20<<10/len(raw)))), 0
		c := check(t, filled(all[int(kind)%len(all)], func(protoreflect.FieldDescriptor) string {
			n++
			return long[n%len(raw):]
		}))
		texts(c.ProtoReflect(), func(name, s string) {
			r := ruleOf(name)
			switch {
			case !utf8.ValidString(s) || len(s) > r.most:
				t.Fatalf("%s has %d bytes: %.100q", name, len(s), s)
			case r.class == text && !plain.Shown(s, true):
				t.Fatalf("%s acts on a terminal: %.100q", name, s)
			}
		})
	})
}

func ruleOf(name string) rule {
	message, field, _ := strings.Cut(name, ".")
	for _, f := range plans()[protoreflect.FullName("journalet.v1."+message)].fields {
		if string(f.fd.Name()) == field {
			return f.rule
		}
	}
	panic(name)
}

func TestAFactThatIsFineIsNotCopied(t *testing.T) {
	for _, kind := range kinds(t) {
		e := filled(kind, func(protoreflect.FieldDescriptor) string { return "a name, ü and \ufffd\nand \t" })
		if Fact(e) != e {
			t.Errorf("%s was copied", kind.Name())
		}
	}
}

// A container's id that is changed is another container's: a driver would no longer find it.
func TestANameThatARecordCanHoldIsNeverChanged(t *testing.T) {
	for _, s := range []string{"web\x1b[31m", "a\nb", "\u202e", "\x00", strings.Repeat("n", maxStoredNameBytes)} {
		if got := (rule{name, maxStoredNameBytes}).clean(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestNamesThatAreChangedStayDifferent(t *testing.T) {
	long := strings.Repeat("n", maxStoredNameBytes)
	labels := map[string]string{"a\xff": "1", "a\xfe": "2", "a\ufffd": "3", long + "x": "4", long + "y": "5"}
	c := check(t, messages.NewEvent(&journaletv1.NodeObserved{Uid: "u", Labels: labels})).GetNodeObserved()
	if len(c.GetLabels()) != len(labels) || c.GetLabels()["a\ufffd"] != "3" {
		t.Errorf("%q", c.GetLabels())
	}
	for name := range c.GetLabels() {
		if len(name) > maxStoredNameBytes {
			t.Errorf("a name of %d bytes", len(name))
		}
	}
}

func TestATextForPeopleDrivesNoTerminal(t *testing.T) {
	for said, want := range map[string]string{
		"two\nlines\tand a tab":         "two\nlines\tand a tab",
		"\x1b[2J\r\a":                   `\u001b[2J\u000d\u0007`,
		"\u009b31m \x7f":                `\u009b31m \u007f`,
		"abc\u202edef":                  `abc\u202edef`,
		"\xff\xfeodd":                   "\ufffd\ufffdodd",
		strings.Repeat("ü", 2048):       strings.Repeat("ü", 2048),
		strings.Repeat("ü", 2049):       strings.Repeat("ü", 2046) + "...",
		"x" + strings.Repeat("ü", 99e3): "x" + strings.Repeat("ü", 2046) + "...",
		strings.Repeat("\x1b", 4096):    strings.Repeat(`\u001b`, 682) + "\\...",
	} {
		c := check(t, messages.NewEvent(&journaletv1.CallFinished{Message: said}))
		if got := c.GetCallFinished().GetMessage(); got != want {
			t.Errorf("%.40q: %d bytes %q, want %d", said, len(got), got, len(want))
		}
	}
}

// The API server gets it as a kubelet reports it, and programs read it there.
func TestATerminationMessageKeepsItsControlCharacters(t *testing.T) {
	for said, want := range map[string]string{
		"\x1b[31mred\r\n\x00\u202e":            "\x1b[31mred\r\n\x00\u202e",
		"{\"a\":1}\xff\xfe":                    "{\"a\":1}\ufffd\ufffd", // as JSON has it
		strings.Repeat("x", 4096):              strings.Repeat("x", 4096),
		strings.Repeat("x", 4095) + "ü":        strings.Repeat("x", 4095),
		strings.Repeat("\xff", 4096):           strings.Repeat("\ufffd", 1365),
		strings.Repeat("x", 4094) + "\xf0\x9f": strings.Repeat("x", 4094), // as cut within a character
	} {
		c := check(t, observed(1, said))
		if got := c.GetPodObserved().GetContainers()[0].GetMessage(); got != want {
			t.Errorf("%.40q: %d bytes %.40q, want %d", said, len(got), got, len(want))
		}
	}
}

// 80 containers with two instances each and 100 ephemeral ones have more words together than a record may.
func TestAFactThatIsTooLargeLosesTheEndsOfItsTexts(t *testing.T) {
	const instances = 260
	e := observed(instances, strings.Repeat("\xff", 4096))
	e.GetPodObserved().Containers[7].Message = "short"
	c := check(t, e).GetPodObserved()
	if len(c.GetContainers()) != instances || c.GetContainers()[7].GetMessage() != "short" {
		t.Errorf("%d containers, the short message is %q", len(c.GetContainers()), c.GetContainers()[7].GetMessage())
	}
	for i, is := range c.GetContainers() {
		was := e.GetPodObserved().GetContainers()[i]
		if is.GetName() != was.GetName() || is.GetId() != was.GetId() || i != 7 && len(is.GetMessage()) < 1000 {
			t.Fatalf("container %d became %v", i, is)
		}
	}
}

func TestAnEventOfAnUnknownKindIsLeftToTheJournal(t *testing.T) {
	e := new(journaletv1.Event)
	if Fact(e) != e {
		t.Error("it was copied")
	}
}
