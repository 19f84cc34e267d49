package timeline

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/timeline"
	"github.com/journalet/journalet/test/must"
)

// patience bounds one page in the browser. It is no claim about speed.
const patience = 3 * time.Minute

// browser is the Chromium that all tests share.
var browser context.Context

func TestMain(m *testing.M) { os.Exit(withBrowser(m)) }

func withBrowser(m *testing.M) int {
	path, err := exec.LookPath("chromium")
	if err != nil {
		fmt.Fprintln(os.Stderr, "there is no chromium: run make timeline-test, which installs Debian's")
		return 1
	}
	profile, err := os.MkdirTemp("", "timeline-chromium-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(profile)
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.Env("TZ=UTC"),
	}
	for _, flag := range []string{
		"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync", "hide-scrollbars",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	var cancel context.CancelFunc
	browser, cancel = chromedp.NewContext(allocator)
	defer cancel()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "chromium does not start:", err)
		return 1
	}
	return m.Run()
}

// page is a timeline in a tab of its own.
type page struct {
	t   *testing.T
	ctx context.Context
	url string

	mu       sync.Mutex
	complain []string // errors of the console, and requests
}

// open writes the picture of a journal and opens it from its file.
func open(t *testing.T, r history.Reader, o timeline.Options) *page {
	t.Helper()
	picture, err := timeline.Read(t.Context(), r, o)
	must.OK(t, err)
	path := filepath.Join(t.TempDir(), "timeline.html")
	f, err := os.Create(path)
	must.OK(t, err)
	must.OK(t, picture.HTML(f))
	must.OK(t, f.Close())
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	must.OK(t, chromedp.Do(ctx))
	ctx, stop := context.WithTimeout(ctx, patience)
	t.Cleanup(stop)
	p := &page{t: t, ctx: ctx, url: "file://" + path}
	must.OK(t, chromedp.Listen(ctx, p.listen))
	call(p, network.Enable, network.EnableParams{})
	call(p, cdplog.Enable, cdp.Empty{})
	call(p, runtime.Enable, cdp.Empty{})
	p.do(chromedp.EmulateViewport(1400, 860), chromedp.Navigate(p.url), chromedp.WaitVisible(chromedp.CSS("#canvas")))
	return p
}

// listen collects what a page that needs no network never has.
func (p *page) listen(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := ev.(type) {
	case *runtime.EventExceptionThrown:
		d := e.ExceptionDetails
		p.complain = append(p.complain, fmt.Sprintf("exception: %s %v", d.Text, d.Exception))
	case *runtime.EventConsoleAPICalled:
		p.complain = append(p.complain, fmt.Sprintf("console: %s %v", e.Type, e.Args))
	case *cdplog.EventEntryAdded:
		p.complain = append(p.complain, "log: "+e.Entry.Text)
	case *network.EventRequestWillBeSent:
		if e.Request.URL != p.url {
			p.complain = append(p.complain, "request: "+e.Request.URL)
		}
	}
}

// complaints returns the errors and the requests so far.
func (p *page) complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.complain)
}

func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	must.OK(p.t, chromedp.Do(p.ctx, actions...))
}

// call sends a command of the protocol that chromedp has no action for.
func call[P, R any](p *page, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	r, err := chromedp.Call(p.ctx, command, params)
	must.OK(p.t, err)
	return r
}

// js returns the value of an expression in the page.
func js[V any](p *page, expression string) V {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[V](expression, chromedp.EvalAwaitPromise))
	must.OK(p.t, err)
	return v
}

// settled returns after the page has drawn what is pending.
func (p *page) settled() {
	p.t.Helper()
	js[bool](p, `new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))`)
}

// picture returns what the canvas shows, to compare.
func (p *page) picture() string {
	p.t.Helper()
	p.settled()
	return js[string](p, `canvas.toDataURL()`)
}

func (p *page) text(selector string) string {
	p.t.Helper()
	return js[string](p, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

// point is a place in the window.
type point struct{ X, Y float64 }

// spot returns where an event is drawn.
func (p *page) spot(event int) point {
	p.t.Helper()
	return js[point](p, fmt.Sprintf(`(() => { const s = journalet.spot(%d), b = canvas.getBoundingClientRect();
		return { X: s.x + b.left, Y: s.y + b.top }; })()`, event))
}

func (p *page) mouse(kind input.DispatchMouseEventType, at point, more ...chromedp.MouseOption) {
	p.t.Helper()
	p.do(chromedp.MouseEvent(kind, at.X, at.Y, more...))
	p.settled()
}

func (p *page) key(keys string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys))
	p.settled()
}

// set changes a field of the filter as a person does.
func (p *page) set(id, property string, value any) {
	p.t.Helper()
	js[bool](p, fmt.Sprintf(`(() => { const x = document.getElementById(%q); x[%q] = %s;
		return x.dispatchEvent(new Event('input', { bubbles: true })); })()`, id, property, literal(value)))
	p.settled()
}

func literal(v any) string {
	if s, ok := v.(string); ok {
		return "'" + strings.ReplaceAll(s, "'", `\'`) + "'"
	}
	return fmt.Sprint(v)
}

// quiet fails the test if the page has complained, or requested anything.
func (p *page) quiet() {
	p.t.Helper()
	if all := p.complaints(); len(all) > 0 {
		p.t.Errorf("the page complains: %q", all)
	}
}
