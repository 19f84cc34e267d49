package timeline

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/timeline"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/simulation"
	"github.com/journalet/journalet/test/strict"
)

const (
	// firstPaint and frame are what a page with many events keeps on a quiet machine.
	firstPaint, frame = time.Second, 16 * time.Millisecond
	fewEvents         = 1_000
	manyEvents        = 10 * fewEvents
	// maxCalls bounds the calls that draw a picture of many events with all lanes open. They are 1,800 when a pixel shows
	// one thing only, and nothing is drawn that is scrolled away.
	maxCalls = 3_000
	// ctrl is the modifier of a mouse event.
	ctrl = 2
)

// node returns the journal of a simulated node with pods that come, fail and end.
func node(pods int, lasts time.Duration) *history.Memory {
	return simulation.Busy(7, pods, lasts, 100_000).History()
}

// A picture of ten times the events takes calls that the screen bounds, and at most ten times the time that one of the
// others takes in the same browser at the same moment. How long that is depends on the machine.
func TestTenThousandEventsAreInteractive(t *testing.T) {
	few, lot := many(t, fewEvents), many(t, manyEvents)
	first, frames := [2]float64{1e9, 1e9}, [2][]float64{}
	least := []int{fewEvents, manyEvents}
	for range 3 {
		for i, m := range []*history.Memory{few, lot} {
			p := open(t, m, timeline.Options{})
			if n := js[int](p, `journalet.events.length`); n < least[i] {
				t.Fatalf("the page has %d events, want %d", n, least[i])
			}
			first[i] = min(first[i], js[float64](p, `journalet.painted`))
			js[bool](p, `(document.getElementById('fold').click(), true)`) // all lanes of all pods
			p.settled()
			p.quiet()
			frames[i] = append(frames[i], p.frames()...)
			if calls := p.calls(); calls > maxCalls {
				t.Errorf("a picture of %d events takes %d calls, want %d at most", least[i], calls, maxCalls)
			}
		}
	}
	slices.Sort(frames[0])
	slices.Sort(frames[1])
	middle := len(frames[0]) / 2
	for what, ms := range map[string][2]float64{
		"first paint": first, "frame": {frames[0][middle], frames[1][middle]},
	} {
		t.Logf("%s: %.1f ms with %d events, %.1f ms with %d", what, ms[0], fewEvents, ms[1], manyEvents)
		if ms[1] > ms[0]*manyEvents/fewEvents {
			t.Errorf("%s: %.1f ms with %d events, %.1f ms with %d: more than in proportion", what, ms[0], fewEvents, ms[1],
				manyEvents)
		}
	}
	strict.Within(t, "the first paint", time.Duration(first[1]*1e6), firstPaint)
	strict.Within(t, "a frame (p95)", time.Duration(frames[1][len(frames[1])*95/100]*1e6), frame)
}

// zooms draws 120 pictures of a zoom, and returns by how much each adds to a counter. Reading a pixel back makes the
// browser draw at once what it would draw later.
func (p *page) zooms(counter string) []float64 {
	p.t.Helper()
	return js[[]float64](p, fmt.Sprintf(`(() => { const all = [];
		for (let i = 0; i < 120; i++) {
			journalet.zoom(i < 60 ? 0.9 : 1 / 0.9);
			const began = %[1]s;
			journalet.draw();
			ctx.getImageData(0, 0, 1, 1);
			all.push(%[1]s - began);
		}
		return all; })()`, counter))
}

// frames returns the times that a zoom's pictures take, in ms.
func (p *page) frames() []float64 { return p.zooms(`performance.now()`) }

// calls returns the calls of the canvas that a zoom's longest picture takes.
func (p *page) calls() int {
	p.t.Helper()
	js[bool](p, `(() => { window.calls = 0;
		for (const name of ['fillRect', 'fill', 'stroke', 'strokeRect', 'fillText', 'measureText', 'beginPath', 'roundRect',
			'arc', 'moveTo']) {
			const plain = ctx[name];
			ctx[name] = function() { calls++; return plain.apply(ctx, arguments); };
		}
		return true; })()`)
	return int(slices.Max(p.zooms(`calls`)))
}

func TestZoomAndMoveChangeWhatIsDrawn(t *testing.T) {
	p := open(t, node(8, 5*time.Minute), timeline.Options{})
	width := func() float64 { return js[float64](p, `journalet.view.to - journalet.view.from`) }
	whole, before := width(), p.picture()
	steps := []struct {
		how     string
		do      func()
		narrows bool
	}{
		{"the button", func() { p.do(chromedp.Click(chromedp.CSS("#in"))) }, true},
		{"a key", func() { p.do(chromedp.Focus(chromedp.CSS("#canvas"))); p.key("+") }, true},
		{"the wheel", func() {
			p.mouse(input.DispatchMouseEventTypeMouseWheel, point{600, 400}, func(m *input.DispatchMouseEventParams) {
				m.DeltaX, m.DeltaY, m.Modifiers = 0.001, -200, ctrl
			})
		}, true},
		{"an arrow", func() { p.key(kb.ArrowRight) }, false},
		{"dragging", func() {
			p.mouse(input.DispatchMouseEventTypeMousePressed, point{700, 300}, left)
			p.mouse(input.DispatchMouseEventTypeMouseMoved, point{500, 300}, left)
			p.mouse(input.DispatchMouseEventTypeMouseReleased, point{500, 300}, left)
		}, false},
	}
	for _, s := range steps {
		was := width()
		s.do()
		after := p.picture()
		if after == before || s.narrows != (width() < was*0.99) {
			t.Errorf("%s: the picture changes: %v, the view from %.0f to %.0f ms", s.how, after != before, was, width())
		}
		before = after
	}
	if p.key("0"); width() < whole*0.99 {
		t.Errorf("everything is %.0f ms, shown are %.0f", whole, width())
	}
	p.quiet()
}

func left(m *input.DispatchMouseEventParams) {
	m.Button, m.Buttons, m.ClickCount = input.MouseButtonLeft, 1, 1
}

func TestFilterChangesWhatIsDrawn(t *testing.T) {
	p := open(t, node(8, 5*time.Minute), timeline.Options{})
	all, whole := p.text("#count"), p.picture()
	for _, c := range []struct {
		id, property string
		value, none  any
	}{
		{"text", "value", "exited", ""}, {"kind", "value", "call", ""}, {"alerts", "checked", true, false},
		{"pod", "value", "1", ""}, {"container", "value", js[string](p, `document.getElementById('container').options[1].value`), ""},
	} {
		p.set(c.id, c.property, c.value)
		if got := p.text("#count"); !strings.Contains(got, " of ") || got == all || p.picture() == whole {
			t.Errorf("%s %v: shows %s", c.id, c.value, got)
		}
		p.set(c.id, c.property, c.none)
		if p.text("#count") != all || p.picture() != whole {
			t.Errorf("without %s it shows %s", c.id, p.text("#count"))
		}
	}
	p.set("text", "value", "nothing has this text")
	if !strings.Contains(p.text("#empty"), "No event matches") {
		t.Errorf("without an event it shows %q", p.text("#empty"))
	}
	p.do(chromedp.Click(chromedp.CSS("#clear")))
	if p.text("#count") != all {
		t.Errorf("the cleared filter shows %s", p.text("#count"))
	}
	p.quiet()
}

// chained returns an event with a long chain of causes that is drawn.
func chained(p *page) int {
	return js[int](p, `(() => { const E = journalet.events, long = i => E[i].because < 0 ? 1 : 1 + long(E[i].because);
		return E.findIndex((e, i) => e.group > 0 && long(i) >= 5 && e.event === 'call_dispatched'); })()`)
}

func TestHoverShowsTheEvent(t *testing.T) {
	p := open(t, node(2, time.Minute), timeline.Options{})
	i := js[int](p, `journalet.events.findIndex(e => e.group > 0 && e.event === 'call_finished')`)
	js[bool](p, fmt.Sprintf(`(journalet.select(%d, true), journalet.zoom(0.001, journalet.events[%d].at), true)`, i, i))
	p.settled()
	p.mouse(input.DispatchMouseEventTypeMouseMoved, p.spot(i))
	tip, want := p.text("#tip"), js[[]string](p, fmt.Sprintf(`(e => ['#' + e.seq, e.text, e.event])(journalet.events[%d])`, i))
	for _, w := range append(want, "intent_id") {
		if !strings.Contains(tip, w) {
			t.Errorf("the tip has no %q: %s", w, tip)
		}
	}
	p.mouse(input.DispatchMouseEventTypeMouseMoved, point{5, 5})
	if !js[bool](p, `document.getElementById('tip').hidden`) {
		t.Error("the tip stays")
	}
	p.quiet()
}

func TestClickShowsAndHighlightsTheChainOfCauses(t *testing.T) {
	p := open(t, node(2, time.Minute), timeline.Options{})
	i := chained(p)
	js[bool](p, fmt.Sprintf(`(journalet.zoom(0.001, journalet.events[%d].at), true)`, i))
	before, at := p.picture(), p.spot(i)
	p.mouse(input.DispatchMouseEventTypeMousePressed, at, left)
	p.mouse(input.DispatchMouseEventTypeMouseReleased, at, left)
	if p.picture() == before {
		t.Error("nothing is highlighted")
	}
	chain := js[[]string](p, `[...document.querySelectorAll('#details ol')][0].innerText.split('\n').filter(x => x)`)
	seqs := js[[]int](p, `[...document.querySelectorAll('#details ol:first-of-type [data-seq]')].map(x => +x.dataset.seq)`)
	if len(seqs) < 5 || seqs[len(seqs)-1] != js[int](p, fmt.Sprintf(`journalet.events[%d].seq`, i)) {
		t.Fatalf("the chain is %q", chain)
	}
	for k := 1; k < len(seqs); k++ {
		if seqs[k] <= seqs[k-1] {
			t.Errorf("the chain is not in order: %v", seqs)
		}
	}
	// Back by the chain, and forward by what that event led to.
	js[bool](p, `(document.querySelectorAll('#details ol')[0].querySelectorAll('button')[1].click(), true)`)
	title := p.text("#details h2")
	forward := js[int](p, `(() => { const h = [...document.querySelectorAll('#details h3')].find(x => x.innerText === 'LED TO');
		const next = [...h.nextSibling.querySelectorAll('[data-seq]')].map(x => +x.dataset.seq);
		h.nextSibling.querySelector('button').click(); return next[0]; })()`)
	if p.text("#details h2") == title || forward <= seqs[1] {
		t.Errorf("from %q forward leads to #%d %q", title, forward, p.text("#details h2"))
	}
	p.quiet()
}

func TestKeyboardReachesEveryEvent(t *testing.T) {
	p := open(t, node(2, time.Minute), timeline.Options{})
	p.do(chromedp.Focus(chromedp.CSS("#canvas")))
	first := p.text("#details h2")
	p.key("n")
	second := p.text("#details h2")
	p.key("n")
	if third := p.text("#details h2"); first == second || second == third {
		t.Errorf("n leads from %q to %q to %q", first, second, third)
	}
	if p.key("p"); p.text("#details h2") != second {
		t.Errorf("p leads to %q", p.text("#details h2"))
	}
	p.key(kb.Escape)
	if p.text("#details h2") != first {
		t.Errorf("Escape leaves %q", p.text("#details h2"))
	}
	p.key("/")
	if js[string](p, `document.activeElement.id`) != "text" {
		t.Error("/ does not lead to the search")
	}
	p.quiet()
}

// hostile are texts that a container may leave.
var hostile = []string{
	`</script><img src=x onerror="window.hacked=1">`, `<script>window.hacked=1</script>`, `<!--<script>`,
	"\u2028window.hacked=1//\u2029", `"};window.hacked=1;//`, `${window.hacked=1}`, "&lt;b&gt;", "{{script}}",
}

func TestHostileTextStaysText(t *testing.T) {
	m := &history.Memory{Name: `n1"><script>window.hacked=1</script>`}
	for i, text := range hostile {
		for _, e := range []*journaletv1.Event{
			messages.NewEvent(&journaletv1.PodObserved{
				Uid: "u1", PodNamespace: "shop", PodName: "web", Containers: []*journaletv1.ContainerObservation{{
					Id: fmt.Sprint("c", i), Name: "main" + text, Attempt: uint32(i), Message: text, Reason: text, ExitCode: 1,
					State: journaletv1.ContainerState_CONTAINER_STATE_EXITED,
				}},
			}),
			messages.NewEvent(&journaletv1.ProbeResult{Uid: "u1", Container: text, Message: text,
				Kind: journaletv1.ProbeKind_PROBE_KIND_LIVENESS}),
		} {
			m.Records = append(m.Records, &journaletv1.Record{
				Seq: uint64(len(m.Records) + 1), Epoch: 1, Actor: messages.Pod("u1").Proto(),
				Time: timestamppb.New(time.Unix(int64(len(m.Records)), 0)), Body: &journaletv1.Record_Fact{Fact: e},
			})
		}
	}
	p := open(t, m, timeline.Options{})
	p.do(chromedp.Focus(chromedp.CSS("#canvas")))
	seen := p.text("body")
	for range m.Records {
		p.key("n")
		seen += p.text("#details")
		i := js[int](p, `selected`)
		p.mouse(input.DispatchMouseEventTypeMouseMoved, p.spot(i))
		seen += p.text("#tip")
	}
	for _, text := range hostile {
		if plain := strings.Trim(text, "\u2028\u2029"); !strings.Contains(seen, plain) {
			t.Errorf("the page does not show %q", plain)
		}
	}
	// The page's own are the data, the script and the fields.
	if js[bool](p, `'hacked' in window || document.images.length > 0 || document.scripts.length !== 3`) {
		t.Error("a container's text became a part of the page")
	}
	p.quiet()
}

func TestPolicyForbidsTheNetworkAndForeignScripts(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer server.Close()
	p := open(t, node(2, time.Minute), timeline.Options{})
	p.quiet()
	for _, attempt := range []string{
		`fetch('%s').then(() => 'loaded', () => 'refused')`,
		`new Promise(r => { const x = new Image(); x.onload = () => r('loaded');
			x.onerror = () => r('refused'); x.src = '%s/i.png'; })`,
		`new Promise(r => { const x = document.createElement('script'); x.onload = () => r('loaded');
			x.onerror = () => r('refused'); x.src = '%s/s.js'; document.body.append(x); })`,
		`new Promise(r => { const x = document.createElement('script'); x.textContent = 'window.hacked = 1';
			document.body.append(x); r('hacked' in window ? '%.0sloaded' : 'refused'); })`,
	} {
		if got := js[string](p, fmt.Sprintf(attempt, server.URL)); got != "refused" {
			t.Errorf("%s is %s", attempt, got)
		}
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("%d requests reached a server", n)
	}
}

func TestNarrowAndPrintedPagesShowEverything(t *testing.T) {
	p := open(t, node(4, 2*time.Minute), timeline.Options{})
	p.do(chromedp.EmulateViewport(400, 800, chromedp.EmulateScale(2)))
	p.settled()
	if wide := js[int](p, `document.documentElement.scrollWidth`); wide > 400 {
		t.Errorf("a page of 400 columns is %d wide", wide)
	}
	if js[bool](p, `document.getElementById('details').getBoundingClientRect().top <
		document.getElementById('chart').getBoundingClientRect().bottom`) {
		t.Error("the details are not below the chart")
	}
	pdf, err := chromedp.Run(p.ctx, chromedp.PrintToPDF(chromedp.PDFPrintBackground()))
	must.OK(t, err)
	if len(pdf) < 20_000 {
		t.Errorf("the print has %d bytes", len(pdf))
	}
	p.quiet()
}
