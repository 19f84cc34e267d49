package url

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/journalet/journalet/runtime/source/manifest"
)

const secret = "s3cret"

// shows fails if a secret is in the log, a fact or an error of the driver.
func (w *world) showsNoSecret() {
	w.t.Helper()
	if strings.Contains(w.log.String(), secret) {
		w.t.Errorf("the log has a secret:\n%s", w.log)
	}
	for len(w.facts) > 0 {
		if f := <-w.facts; strings.Contains(f.String(), secret) {
			w.t.Errorf("a fact has a secret: %v", f)
		}
	}
	if err := w.Healthy(); err != nil && strings.Contains(err.Error(), secret) {
		w.t.Errorf("the health error has a secret: %v", err)
	}
}

// withSecrets returns a URL and headers with secrets.
func withSecrets(o *Options) {
	at, _ := url.Parse(o.URL)
	at.User, at.RawQuery = url.UserPassword("user-"+secret, secret), "token="+secret
	o.URL = at.String()
	o.Header = http.Header{"Authorization": {"Bearer " + secret}, "X-Token": {secret, "again-" + secret}}
}

func TestSecretsGoOnlyToServer(t *testing.T) {
	w := newServer(t)
	w.gives(pod("a", "x:1"))
	w.starts("/pods", withSecrets)
	got := w.last()
	if len(got.Header["X-Token"]) != 2 || got.Header.Get("Authorization") != "Bearer "+secret ||
		got.URL.Query().Get("token") != secret {
		t.Errorf("the server got %v %v", got.URL, got.Header)
	}
	// UIDs do not depend on secrets.
	fact := w.fact()
	plain, _ := manifest.Decode(w.server.URL+"/pods", []byte(pod("a", "x:1")),
		manifest.Options{NodeName: "n1", Source: manifest.SourceHTTP})
	if fact.GetChanged()[0].GetPods()[0].GetUid() != string(plain[0].Pod.UID) {
		t.Error("the UID depends on a secret in the URL")
	}
	w.facts <- fact
	for _, handler := range []http.HandlerFunc{
		func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusForbidden) },
		func(out http.ResponseWriter, _ *http.Request) {
			out.Header().Set("Location", "http://%%"+secret)
			out.WriteHeader(http.StatusFound)
		},
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		w.serves(handler)
		for range outageAfter {
			w.next()
		}
		w.gives(pod("a", "x:1")) // failures after an outage are logged again
		w.next()
	}
	if n := strings.Count(w.log.String(), "cannot read pods from the URL"); n != 3*loudFailures {
		t.Errorf("%d failures were logged", n)
	}
	w.showsNoSecret()
}

func TestOtherHostGetsNoHeaderAndNoReferer(t *testing.T) {
	var elsewhere http.Header
	other := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		elsewhere = req.Header.Clone()
		fmt.Fprint(out, pod("a", "x:1"))
	}))
	t.Cleanup(other.Close)
	w := newServer(t)
	w.serves(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Location", other.URL+"/pods")
		out.WriteHeader(http.StatusTemporaryRedirect)
	})
	w.starts("/pods", withSecrets)
	w.wants("a-n1")
	if text := fmt.Sprint(elsewhere); strings.Contains(text, secret) || elsewhere.Get("Referer") != "" {
		t.Errorf("another host got %v", elsewhere)
	}
	w.showsNoSecret()
}

func TestSameHostRedirectsKeepHeadersAndAreBounded(t *testing.T) {
	w := newServer(t)
	w.serves(func(out http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/there" {
			http.Redirect(out, req, "/there", http.StatusFound)
			return
		}
		if req.Header.Get("X-Token") != secret {
			out.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(out, pod("a", "x:1"))
	})
	w.starts("/pods", withSecrets)
	w.wants("a-n1")
	w.showsNoSecret()

	round := newServer(t)
	round.serves(func(out http.ResponseWriter, req *http.Request) {
		http.Redirect(out, req, "/round?"+secret, http.StatusFound)
	})
	round.starts("/pods", withSecrets)
	if n := round.requestCount(); n != maxRedirects+1 {
		t.Errorf("%d redirects were followed", n-1)
	}
	round.next()
	round.next()
	if m := round.fact().GetChanged()[0].GetProblems()[0].GetMessage(); !strings.Contains(m, "redirects more than") {
		t.Errorf("problem %q", m)
	}
	round.showsNoSecret()
}

func TestHTTPSToHTTPRedirectIsRefused(t *testing.T) {
	requests := 0
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests++ }))
	t.Cleanup(plain.Close)
	w := newServer(t)
	w.server = httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		http.Redirect(out, req, plain.URL, http.StatusFound)
	}))
	t.Cleanup(w.server.Close)
	d, err := New(Options{URL: w.server.URL, Node: "n1", Store: w.store, Sink: w.sink})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an untrusted certificate is accepted: %v", err)
	}
	d.client.Transport = w.server.Client().Transport
	if _, err := d.fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "from https to http") || requests > 0 {
		t.Errorf("followed %d times: %v", requests, err)
	}
}

func TestInvalidURLIsRefusedAndNotShown(t *testing.T) {
	for _, text := range []string{"ftp://host/" + secret, "/pods?" + secret, "http://", "http://ho st/" + secret,
		"https://%%" + secret, "unix:///run/" + secret} {
		if _, err := Parse(text); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"https://u:p@host:8443/a%2Fb/c?token=x#y": "https://host:8443/a%2Fb/c", "http://host": "http://host",
	} {
		if at, err := Parse(text); err != nil || ShownURL(at) != want {
			t.Errorf("%s is shown as %v, %v", text, ShownURL(at), err)
		}
	}
}
