package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/test/bench/criproxy"
	"github.com/journalet/journalet/test/bench/exectrace"
)

// maxBytes is what a picture in the repository may weigh.
const maxBytes = 150 << 10

var t0 = time.Unix(1_700_000_000, 0)

func at(millis int) time.Time { return t0.Add(time.Duration(millis) * time.Millisecond) }

func call(method string, begin, end int) criproxy.Call {
	return criproxy.Call{Method: method, Begin: at(begin), End: at(end)}
}

// drawn checks that a picture is well-formed, light and always the same, and gives its text.
func drawn(t *testing.T, draw func(io.Writer) error) string {
	t.Helper()
	var a, b bytes.Buffer
	if err := errors.Join(draw(&a), draw(&b)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("the same data make different pictures")
	}
	if a.Len() > maxBytes {
		t.Errorf("the picture has %d bytes", a.Len())
	}
	var text strings.Builder
	for d := xml.NewDecoder(&a); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := token.(xml.CharData); ok {
			text.Write(s)
		}
	}
}

// pod is a start of 100 ms: 10 ours, 50 the sandbox's, 5 a look's, 3 ours, 2 a look's, 30 the container's.
var pod = Start{
	Written: at(0), Running: at(100), Floor: 80 * time.Millisecond,
	Records: []Record{{Seq: 5, Time: at(8), Events: []string{"manifests_read"}}, {Seq: 6, Time: at(61), Events: []string{"call_finished", "a<b"}}},
	Calls: []criproxy.Call{
		call("RunPodSandbox", 10, 60), call("PodSandboxStatus", 55, 65), call("ListContainers", 68, 75), call("CreateContainer", 70, 80), call("StartContainer", 80, 101),
	},
}

func TestAStartsTimeIsSharedOutToTheLastMillisecond(t *testing.T) {
	runtime, looks, ours := pod.Share()
	if runtime != 80*time.Millisecond || looks != 7*time.Millisecond || ours != 13*time.Millisecond {
		t.Errorf("runtime %v, looks %v, ours %v", runtime, looks, ours)
	}
}

func TestAStartsPictureNamesEveryRecordAndCall(t *testing.T) {
	text := drawn(t, func(w io.Writer) error { return WriteStart(w, pod) })
	for _, want := range []string{"100 ms in all", "ours 13.0 ms", "8.0 ms until the manifest is read, 2.0 ms to the first call, 3.0 ms between the calls", "#5", "manifests_read", "call_finished, a<b", "PodSandboxStatus  10.0 ms", "container running"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestCallsThatOverlapLieInLanesOfTheirOwn(t *testing.T) {
	lanes := Lanes([]criproxy.Call{call("a", 0, 10), call("b", 5, 12), call("c", 10, 20), call("d", 13, 14)})
	if len(lanes) != 2 || len(lanes[0]) != 2 || lanes[0][1].Method != "c" || lanes[1][1].Method != "d" {
		t.Errorf("lanes %+v", lanes)
	}
}

// large is a burst of 150 pods that is looked at often.
func large() Burst {
	b := Burst{Name: "agent", Begin: t0, Last: 15 * time.Second}
	for i := range 150 {
		for n, m := range []string{"RunPodSandbox", "CreateContainer", "StartContainer"} {
			b.Calls = append(b.Calls, call(m, 100*i+33*n, 100*i+33*n+30))
		}
		for n := range 6 {
			b.Calls = append(b.Calls, call("ContainerStatus", 100*i+10*n, 100*i+10*n+2))
		}
	}
	for i := range 75 {
		x := float64(i) * 0.2
		b.Samples = append(b.Samples, Sample{At: at(200 * i), All: 2 * x, Agent: x / 10, Runtime: x / 3, Measure: x / 20})
	}
	return b
}

func TestABurstOfManyPodsIsALightPicture(t *testing.T) {
	text := drawn(t, func(w io.Writer) error { return WriteBurst(w, 150, 2, large(), large()) })
	if !strings.Contains(text, "agent: last pod running after 15.00 s") {
		t.Error(text)
	}
}

func TestTimeUnderWayEndsWithTheLastPod(t *testing.T) {
	b := Burst{Begin: t0, Last: 100 * time.Millisecond, Calls: []criproxy.Call{call("RunPodSandbox", 0, 60), call("StartContainer", 90, 130), call("ListContainers", 0, 9)}}
	if got := b.Busy(b.Making()); got != 70*time.Millisecond {
		t.Errorf("making for %v", got)
	}
}

func TestAnExecutionTracesPictureNamesEveryPart(t *testing.T) {
	p := &exectrace.Profile{Span: time.Second, Bin: 10 * time.Millisecond, Collections: 3}
	for _, name := range []string{"journal", "actors"} {
		g := exectrace.Group{Name: name, Goroutines: 4, Running: time.Second / 2, Bins: make([]time.Duration, 101)}
		for i := range 100 {
			g.Bins[i] = 5 * time.Millisecond
		}
		p.Groups = append(p.Groups, g)
	}
	text := drawn(t, func(w io.Writer) error { return WriteExec(w, "a burst", p, 0, time.Second) })
	for _, want := range []string{"a burst", "journal", "actors", "3 garbage collections", "1.00 cores"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestAnAxisHasRoundSteps(t *testing.T) {
	for span, want := range map[time.Duration]time.Duration{
		250 * time.Millisecond: 50 * time.Millisecond, 5 * time.Second: 500 * time.Millisecond, 11 * time.Second: 2 * time.Second,
	} {
		if got := stepOf(span); got != want {
			t.Errorf("%v is cut by %v, want %v", span, got, want)
		}
	}
}
