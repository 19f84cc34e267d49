package secureport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/journalet/journalet/test/authority"
	"github.com/journalet/journalet/test/must"
)

func TestPathsHaveTheKubeletsSubresources(t *testing.T) {
	for path, want := range map[string]string{
		"/pods": "pods proxy", "/pods/": "pods proxy", "/runningpods/": "pods proxy", "/allocatedPods": "pods proxy",
		"/healthz": "healthz proxy", "/healthz/ping": "healthz proxy", "/configz": "configz proxy", "/flagz": "configz",
		"/journal/why": "journal proxy", "/stats/summary": "stats", "/metrics": "metrics", "/metrics/cadvisor": "metrics",
		"/logs/": "log", "/logs/syslog": "log", "/checkpoint/ns/pod/c": "checkpoint", "/statusz": "statusz",
		"/exec/ns/pod/c": "proxy", "/containerLogs/ns/pod/c": "proxy", "/debug/pprof/": "proxy", "/": "proxy",
		"/metricsx": "proxy", "/podsecret": "proxy",
	} {
		if got := strings.Join(subresources(path), " "); got != want {
			t.Errorf("%s is reviewed as %s, want %s", path, got, want)
		}
	}
}

func TestACertificateNamesUserAndGroups(t *testing.T) {
	d := open(t, nil)
	d.allow["kube-apiserver get proxy"] = true
	who := as{cert: d.ca.Client(t, "kube-apiserver", "masters")}
	code, body := d.send(who, http.MethodGet, "/containerLogs/ns/p/c")
	if code != 200 || body != "served to kube-apiserver" {
		t.Fatalf("%d %q", code, body)
	}
	if got := d.served(); !slices.Equal(got, []string{"kube-apiserver (certificate) from 127.0.0.1"}) {
		t.Errorf("the handler sees %q", got)
	}
	var r authorizationv1.SubjectAccessReview
	must.OK(t, json.Unmarshal(d.api.Requests("create " + accessReviews)[0].Body, &r))
	if !slices.Equal(r.Spec.Groups, []string{"masters", authenticated}) || len(r.Spec.Extra[credentialID]) != 1 {
		t.Errorf("reviewed %+v", r.Spec)
	}
	if d.reviews(tokenReviews) != 0 {
		t.Error("a certificate needs no TokenReview")
	}
	// POST is create, which is not permitted.
	if code, body = d.send(who, http.MethodPost, "/exec/ns/p/c"); code != 403 ||
		body != "Forbidden (user=kube-apiserver, verb=create, resource=nodes, subresource(s)=[proxy])\n" {
		t.Errorf("%d %q", code, body)
	}
}

func TestCertificatesThatDoNotVerifyAreRefused(t *testing.T) {
	d := open(t, func(_ *testPort, o *Options) { o.AlwaysAllow, o.Anonymous = true, true })
	other := authority.New(t)
	name := pkix.Name{CommonName: "root"}
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for what, c := range map[string]*tls.Certificate{
		"another authority": other.Client(t, "root"),
		"a server's": d.ca.Sign(t, &x509.Certificate{
			Subject: name, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}),
		"expired": d.ca.Sign(t, &x509.Certificate{
			Subject: name, ExtKeyUsage: usage, NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(-time.Second),
		}),
		"no name": d.ca.Client(t, ""),
	} {
		if code, body := d.send(as{cert: c}, http.MethodGet, "/pods"); code != 401 || body != "Unauthorized" {
			t.Errorf("%s: %d %q", what, code, body)
		}
	}
	d.want(200, as{}, "/pods") // anonymous
	if got := d.served(); !slices.Equal(got, []string{"system:anonymous (anonymous) from 127.0.0.1"}) {
		t.Errorf("served %q", got)
	}
}

func TestRequestsWithoutCredentialsAreRefused(t *testing.T) {
	d := open(t, nil)
	for _, path := range []string{"/healthz", "/pods", "/metrics", "/exec/ns/p/c", "/"} {
		d.want(401, as{}, path)
	}
	if got := len(d.api.Requests("")); got != 0 {
		t.Errorf("the API server has had %d requests", got)
	}
}

func TestATokenIsReviewedAndItsAnswerIsKept(t *testing.T) {
	d := open(t, nil)
	d.tokens["good"] = "system:serviceaccount:m:prometheus"
	d.allow["system:serviceaccount:m:prometheus get metrics"] = true
	for range 3 {
		code, body := d.send(as{token: "good"}, http.MethodGet, "/metrics/cadvisor")
		if code != 200 || body != "served to system:serviceaccount:m:prometheus" { // without the token itself
			t.Fatalf("%d %q", code, body)
		}
		d.want(401, as{token: "bad"}, "/metrics")
	}
	if tokens, access := d.reviews(tokenReviews), d.reviews(accessReviews); tokens != 2 || access != 1 {
		t.Errorf("%d TokenReviews, %d SubjectAccessReviews; want 2, 1", tokens, access)
	}
	d.tokens["good"] = ""
	d.advance(2*time.Minute + time.Second)
	d.want(401, as{token: "good"}, "/metrics/cadvisor")
	d.want(401, as{token: strings.Repeat("x", maxTokenBytes+1)}, "/metrics")
	if got := d.reviews(tokenReviews); got != 3 {
		t.Errorf("%d TokenReviews, want 3", got)
	}
}

func TestPermissionsAreKeptForTheirTime(t *testing.T) {
	d := open(t, nil)
	who := as{cert: d.ca.Client(t, "u")}
	for _, step := range []struct {
		allow   bool
		after   time.Duration
		code    int
		reviews int
	}{
		{false, 0, 403, 1}, {true, 29 * time.Second, 403, 1}, {true, 2 * time.Second, 200, 2},
		{false, 4 * time.Minute, 200, 2}, {false, 61 * time.Second, 403, 3},
	} {
		d.allow["u get stats"] = step.allow
		d.advance(step.after)
		d.want(step.code, who, "/stats/summary")
		if got := d.reviews(accessReviews); got != step.reviews {
			t.Errorf("%+v: %d reviews", step, got)
		}
	}
}

func TestTheNarrowPermissionIsReviewedFirst(t *testing.T) {
	d := open(t, nil)
	d.allow["narrow get pods"], d.allow["wide get proxy"] = true, true
	narrow, wide := as{cert: d.ca.Client(t, "narrow")}, as{cert: d.ca.Client(t, "wide")}
	d.want(200, narrow, "/pods")
	if got := d.reviews(accessReviews); got != 1 {
		t.Errorf("%d reviews, want 1", got)
	}
	d.want(200, wide, "/pods")
	d.want(200, wide, "/containerLogs/ns/p/c")
	d.want(403, narrow, "/containerLogs/ns/p/c")
	d.want(403, wide, "/metrics") // proxy does not open it
}

func TestWithoutAnAPIServerCertificatesAndKeptAnswersWork(t *testing.T) {
	d := open(t, nil)
	who := as{cert: d.ca.Client(t, "u")}
	d.tokens["good"] = "u"
	d.allow["u get proxy"] = true
	d.want(200, who, "/containerLogs/ns/p/c")
	d.api.SetDown(true)
	d.want(200, who, "/containerLogs/ns/p/c")
	code, body := d.send(who, http.MethodGet, "/metrics")
	if code != 500 || body != "Authorization error (user=u, verb=get, resource=nodes, subresource=metrics)" {
		t.Errorf("%d %q, want 500", code, body)
	}
	d.want(401, as{token: "good"}, "/containerLogs/ns/p/c")
	d.api.SetDown(false)
	d.want(200, as{token: "good"}, "/containerLogs/ns/p/c") // an error was not kept
	d.want(403, who, "/metrics")
}

func TestUnknownTokensAreReviewedWithinALimit(t *testing.T) {
	d := open(t, nil)
	d.tokens["good"] = "u"
	d.allow["u get metrics"] = true
	d.want(200, as{token: "good"}, "/metrics")
	busy := 0
	for i := range 4 * unknownBurst {
		code, _ := d.send(as{token: fmt.Sprint("bad", i)}, http.MethodGet, "/metrics")
		if code != 401 && code != 429 {
			t.Fatalf("a bad token: %d", code)
		}
		if code == 429 {
			busy++
		}
	}
	if busy == 0 {
		t.Error("no token was beyond the limit")
	}
	// The tokens of the burst, and the tokens that accrued while the requests ran.
	if got := d.reviews(tokenReviews); got >= 4*unknownBurst {
		t.Errorf("%d TokenReviews", got)
	}
	d.want(200, as{token: "good"}, "/metrics")
	d.advance(2*time.Minute + time.Second) // the answer about it has expired, and it is reviewed beside the flood
	d.want(200, as{token: "good"}, "/metrics")
}

func TestAddressesShareTheReviewsOfUnknownTokens(t *testing.T) {
	b := newBudget()
	taken := 0
	for range 10 * addressBurst {
		if b.take("10.0.0.1", false) {
			taken++
		}
	}
	if taken < addressBurst || taken >= unknownBurst {
		t.Errorf("one address has %d reviews", taken)
	}
	if !b.take("10.0.0.2", false) || !b.take("10.0.0.1", true) {
		t.Error("the flood takes reviews of another address, or of tokens that are known")
	}
	for remote, want := range map[string]string{
		"10.0.0.1:1": "10.0.0.1", "[::ffff:10.0.0.1]:1": "10.0.0.1", "[2001:db8::1]:1": "2001:db8::/64",
		"[2001:db8::2]:1": "2001:db8::/64", "[fe80::1%eth0]:1": "fe80::/64", "@": "@",
	} {
		if got := addressOf(remote); got != want {
			t.Errorf("%s is of %s, want %s", remote, got, want)
		}
	}
}

func TestYesIsRequestedAgainBeforeItExpires(t *testing.T) {
	now := time.Unix(0, 0)
	a := newAnswers(time.Minute, time.Minute, func() time.Time { return now })
	a.early = true
	requested, answer := make(chan bool, 10), true
	get := func() any {
		got, err := a.get([]byte("token"), func(known bool) (any, bool, error) {
			requested <- known
			return answer, answer, nil
		})
		must.OK(t, err)
		return got
	}
	if got := get(); got != true || <-requested {
		t.Errorf("the first answer: %v", got)
	}
	now, answer = now.Add(40*time.Second), false
	if got := get(); got != true {
		t.Errorf("while it is requested again: %v", got)
	}
	if known := <-requested; !known {
		t.Error("it was known")
	}
	must.Until(t, time.Minute, "the new answer is kept", func() bool { return get() == false })
	if len(a.yes.Keys()) != 0 || len(a.known.Keys()) != 0 {
		t.Error("a token that is refused counts as known")
	}
}

// addressed is a connection of a client with an address.
type addressed struct {
	net.Conn
	from   string
	closed bool
}

func (c *addressed) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.from + ":1"))
}

func (c *addressed) Close() error { c.closed = true; return nil }

func TestFloodOfOneAddressClosesItsOwnConnections(t *testing.T) {
	l := newListener(nil, Limits{Connections: 100, Strangers: 8})
	first := &addressed{from: "10.0.0.1"}
	if l.admit(first) == nil {
		t.Fatal("not admitted")
	}
	var flood []*addressed
	for range 50 {
		c := &addressed{from: "10.0.0.2"}
		flood = append(flood, c)
		if l.admit(c) == nil {
			t.Fatal("not admitted")
		}
	}
	open := 0
	for _, c := range flood {
		if !c.closed {
			open++
		}
	}
	if first.closed || open != 7 || flood[49].closed || l.byAddress["10.0.0.2"] != 7 {
		t.Errorf("the other address's connection is closed: %v; %d of the flood are open", first.closed, open)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	a := newAnswers(time.Hour, time.Hour, time.Now)
	for i := range maxCached + 100 {
		_, err := a.get([]byte(fmt.Sprint(i)), func(bool) (any, bool, error) { return i, i%2 == 0, nil })
		must.OK(t, err)
		_, err = a.get([]byte(fmt.Sprint("more", i)), func(bool) (any, bool, error) { return i, i%2 == 0, nil })
		must.OK(t, err)
	}
	if yes, no := len(a.yes.Keys()), len(a.no.Keys()); yes != maxCached || no != maxCached {
		t.Errorf("%d and %d answers are kept, want %d", yes, no, maxCached)
	}
}

func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	d := open(t, func(_ *testPort, o *Options) { o.MinVersion = tls.VersionTLS10 })
	c, err := tls.Dial("tcp", d.addr, &tls.Config{
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
	})
	if err == nil {
		c.Close()
		t.Fatal("TLS 1.1 was spoken")
	}
}

func TestFilesAreReadAgain(t *testing.T) {
	dir, ca := t.TempDir(), authority.New(t)
	var clock time.Time
	now := func() time.Time { return clock }
	first, second := ca.Client(t, "first"), ca.Client(t, "second")
	cert, key := authority.Write(t, dir, first)
	get, err := CertificateFiles(cert, key, now, New(Options{}).opts.Log)
	must.OK(t, err)
	want := func(c *tls.Certificate) {
		t.Helper()
		clock = clock.Add(reloadEvery)
		if got, err := get(); err != nil || !slices.Equal(got.Certificate[0], c.Certificate[0]) {
			t.Errorf("another certificate is in use (%v)", err)
		}
	}
	want(first)
	authority.Write(t, dir, second)
	want(second)
	must.OK(t, writeFile(key, "broken"))
	want(second)
	authority.Write(t, dir, first)
	want(first)
	if _, err := CertificateFiles(cert, cert, now, nil); err == nil {
		t.Error("a certificate is no key")
	}
	authorities, err := ClientCAFile(cert, now, nil)
	must.OK(t, err)
	before, _ := authorities()
	authority.Write(t, dir, second)
	clock = clock.Add(reloadEvery)
	if after, err := authorities(); err != nil || after.Equal(before) {
		t.Errorf("the authorities of before are in use (%v)", err)
	}
	if _, err := ClientCAFile(key, now, nil); err == nil {
		t.Error("a key is no authority")
	}
}

// dial opens a connection that sends nothing.
func (d *testPort) dial() net.Conn {
	d.t.Helper()
	c, err := net.Dial("tcp", d.addr)
	must.OK(d.t, err)
	d.t.Cleanup(func() { c.Close() })
	return c
}

// closed waits until the server closes a connection.
func closed(t *testing.T, c net.Conn) {
	t.Helper()
	must.OK(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := c.Read(make([]byte, 64))
	if ne, ok := err.(net.Error); err == nil || ok && ne.Timeout() { //nolint:errorlint // of the connection itself
		t.Errorf("the connection is not closed: %v", err)
	}
}

func TestStrangersHoldNoPlaceAgainstOthers(t *testing.T) {
	d := open(t, func(_ *testPort, o *Options) {
		o.AlwaysAllow, o.Limits = true, Limits{Connections: 3, Strangers: 2, Header: time.Hour}
	})
	known, err := tls.Dial("tcp", d.addr, &tls.Config{
		InsecureSkipVerify: true, Certificates: []tls.Certificate{*d.ca.Client(t, "u")},
	})
	must.OK(t, err)
	defer known.Close()
	request := func() {
		t.Helper()
		_, err := known.Write([]byte("GET /pods HTTP/1.1\r\nHost: n\r\n\r\n"))
		must.OK(t, err)
		n, err := known.Read(make([]byte, 4096))
		if err != nil || n == 0 {
			t.Fatalf("the known client has lost its connection: %v", err)
		}
	}
	request()
	first, second := d.dial(), d.dial()
	third := d.dial()
	closed(t, first)
	d.want(200, as{cert: d.ca.Client(t, "another")}, "/pods")
	closed(t, second)
	_ = third
	request()
}

func TestAHandshakeHasATime(t *testing.T) {
	d := open(t, func(_ *testPort, o *Options) { o.Limits.Header = 50 * time.Millisecond })
	closed(t, d.dial())
}

func TestTheReadOnlyPortServesNoSession(t *testing.T) {
	d := &testPort{}
	d.addr = run(t, func(ctx context.Context, l net.Listener) error {
		return ServePlain(ctx, l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Limits{},
			New(Options{}).opts.Log)
	})
	for what, want := range map[string]int{
		"GET /pods": 200, "GET /metrics/cadvisor": 200, "GET /stats/summary": 200, "POST /pods": 404,
		"GET /exec/ns/p/c": 404, "GET /containerLogs/ns/p/c": 404, "GET /configz": 404, "GET /debug/pprof/": 404,
		"GET /journal/why": 404,
	} {
		method, path, _ := strings.Cut(what, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+d.addr+path, http.NoBody)
		must.OK(t, err)
		resp, err := http.DefaultClient.Do(req)
		must.OK(t, err)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", what, resp.StatusCode, want)
		}
	}
}

func TestNamesForgeNoRecord(t *testing.T) {
	u := &User{Name: "user root (uid 0), process 1\x1b[2J", By: "certificate", From: "10.0.0.1"}
	if got, want := u.String(), "user root ?uid 0?? process 1?[2J (certificate) from 10.0.0.1"; got != want {
		t.Errorf("shown as %q, want %q", got, want)
	}
}

// upgrade sends a WebSocket handshake with subprotocols, and returns the status.
func (d *testPort) upgrade(who as, protocols ...string) int {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, "https://"+d.addr+"/exec/ns/p/c", http.NoBody)
	must.OK(d.t, err)
	req.Header = http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"}, protocolHeader: protocols}
	if who.token != "" {
		req.Header.Set("Authorization", "Bearer "+who.token)
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	must.OK(d.t, err)
	resp.Body.Close()
	return resp.StatusCode
}

// A WebSocket begins with a GET: who may get nodes/proxy reads logs, and opens no session by it, unless the node does
// as a kubelet.
func TestSessionsNeedCreateByAnyMethod(t *testing.T) {
	const user = "u"
	for _, asKubelet := range []bool{false, true} {
		for _, verb := range []string{"get", "create"} {
			d := open(t, func(_ *testPort, o *Options) { o.VerbOfMethod = asKubelet })
			d.tokens["good"] = user
			d.allow[user+" "+verb+" proxy"] = true
			who := as{token: "good"}
			code := func(yes bool) int {
				if yes {
					return http.StatusOK
				}
				return http.StatusForbidden
			}
			byGet := code(verb == "create" != asKubelet)
			if got := d.upgrade(who, "v5.channel.k8s.io"); got != byGet {
				t.Errorf("as a kubelet %v: who may %s nodes/proxy gets %d by WebSocket, want %d", asKubelet, verb, got, byGet)
			}
			for _, path := range []string{"/exec/ns/p/c", "/exec/ns/p/u/c", "/%65xec/ns/p/c", "/attach/ns/p/c",
				"/portForward/ns/p", "/run/ns/p/c"} {
				d.want(byGet, who, path)
				if got, body := d.send(who, http.MethodPost, path); got != code(verb == "create") {
					t.Errorf("who may %s nodes/proxy: POST %s is %d %q", verb, path, got, body)
				}
			}
			d.want(code(verb == "get"), who, "/containerLogs/ns/p/c")
			if got, _ := d.send(who, http.MethodOptions, "/exec/ns/p/c"); got != http.StatusForbidden {
				t.Errorf("a method without a verb is %d", got)
			}
		}
	}
}

func TestATokenMayBeASubprotocolOfAWebSocket(t *testing.T) {
	headers := make(chan http.Header, 10)
	d := open(t, func(_ *testPort, o *Options) {
		o.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { headers <- r.Header.Clone() })
		o.Anonymous = true
	})
	d.tokens["good/ü"] = "u"
	d.allow["u create proxy"] = true
	protocol := func(token string) string { return tokenProtocol + base64.RawURLEncoding.EncodeToString([]byte(token)) }
	for what, c := range map[string]struct {
		who       as
		protocols []string
		code      int
	}{
		"first":       {as{}, []string{protocol("good/ü") + ", v5.channel.k8s.io, v4.channel.k8s.io"}, 200},
		"two headers": {as{}, []string{"v5.channel.k8s.io", " v4.channel.k8s.io ,  " + protocol("good/ü")}, 200},
		"beside a bad header": {as{token: "bad"},
			[]string{"v5.channel.k8s.io", "v4.channel.k8s.io", protocol("good/ü")}, 200},
		"refused":        {as{}, []string{"v5.channel.k8s.io," + protocol("bad")}, 401},
		"alone":          {as{}, []string{protocol("good/ü")}, 401},
		"twice":          {as{}, []string{"v5.channel.k8s.io", protocol("good/ü"), protocol("good/ü")}, 401},
		"padded":         {as{}, []string{"v5.channel.k8s.io", protocol("good/ü") + "="}, 401},
		"no text":        {as{}, []string{"v5.channel.k8s.io", protocol("\xff\xfe")}, 401},
		"too long":       {as{}, []string{"v5.channel.k8s.io", protocol(strings.Repeat("x", maxTokenBytes+1))}, 401},
		"none: no token": {as{}, []string{"v5.channel.k8s.io"}, 403},
	} {
		if got := d.upgrade(c.who, c.protocols...); got != c.code {
			t.Errorf("%s: %d, want %d", what, got, c.code)
		}
		if c.code != 200 {
			continue
		}
		h := <-headers
		if got := strings.ReplaceAll(strings.Join(h[protocolHeader], ","), " ", ""); h.Get("Authorization") != "" ||
			got != "v5.channel.k8s.io,v4.channel.k8s.io" {
			t.Errorf("%s: the handler sees %q", what, got)
		}
	}
	// Only the handshake of a WebSocket has one.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/pods", http.NoBody)
	must.OK(t, err)
	req.Header.Set(protocolHeader, "v5.channel.k8s.io,"+protocol("good/ü"))
	if token, err := protocolToken(req); token != "" || err != nil {
		t.Errorf("a plain request has token %q, %v", token, err)
	}
}

func TestOneUserLeavesPlacesForOthers(t *testing.T) {
	d := open(t, func(_ *testPort, o *Options) { o.AlwaysAllow, o.Limits = true, Limits{Connections: 5, PerUser: 2} })
	send := func(c *tls.Conn) string {
		t.Helper()
		_, err := c.Write([]byte("GET /pods HTTP/1.1\r\nHost: n\r\n\r\n"))
		must.OK(t, err)
		b := make([]byte, 4096)
		n, err := c.Read(b)
		must.OK(t, err)
		return string(b[9:n][:3])
	}
	dial := func(user string) *tls.Conn {
		t.Helper()
		c, err := tls.Dial("tcp", d.addr, &tls.Config{
			InsecureSkipVerify: true, Certificates: []tls.Certificate{*d.ca.Client(t, user)},
		})
		must.OK(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	first, second := dial("u"), dial("u")
	for range 2 { // more requests on a connection take no more places
		if a, b := send(first), send(second); a != "200" || b != "200" {
			t.Fatalf("%s, %s", a, b)
		}
	}
	if got := send(dial("u")); got != "429" {
		t.Errorf("the third connection: %s, want 429", got)
	}
	if got := send(dial("another")); got != "200" {
		t.Errorf("another user: %s", got)
	}
	must.OK(t, first.Close())
	must.Until(t, time.Minute, "the place of a closed connection is free", func() bool { return send(dial("u")) == "200" })
}
