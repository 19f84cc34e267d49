package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestResponsesAreWrittenAsCurlDoes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Method", r.Method+r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("short and stout"))
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for line, want := range map[string]string{
		"-g -q -s --connect-timeout 2 http://" + host + "/hostName": "short and stout",
		"-q -s --max-time 30 --interface 127.0.0.1 " + host:         "short and stout",
		"-i -s " + host: "HTTP/1.1 418 I'm a teapot",
		"-XPUT -i --header Authorization:no " + host: "X-Method: PUTno",
		"-sIk " + host: "X-Method: HEAD",
	} {
		transfer, err := parseTransfer(strings.Fields(line))
		must.OK(t, err)
		var out bytes.Buffer
		code, err := transfer.do(&out)
		must.OK(t, err)
		if code != http.StatusTeapot || !strings.Contains(out.String(), want) {
			t.Errorf("curl %s: %d, %q, want %q", line, code, out.String(), want)
		}
	}
	for _, line := range []string{"", "-T file " + host, "a b", "--interface eth0 a", "--max-time"} {
		if _, err := parseTransfer(strings.Fields(line)); err == nil {
			t.Errorf("curl %s is taken, and means nothing", line)
		}
	}
}
