package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// transfer is what the command line of curl requests.
type transfer struct {
	url, method, output, format string
	from                        net.IP // an address of this host
	header                      http.Header
	connect, all                time.Duration
	headers, onlyHeaders        bool // print them, too; do not request the body
}

// values are the options with a value.
var values = map[string]func(t *transfer, value string) error{
	"-X":                func(t *transfer, v string) error { t.method = v; return nil },
	"-o":                func(t *transfer, v string) error { t.output = v; return nil },
	"-w":                func(t *transfer, v string) error { t.format = v; return nil },
	"--connect-timeout": func(t *transfer, v string) error { return seconds(v, &t.connect) },
	"--max-time":        func(t *transfer, v string) error { return seconds(v, &t.all) },
	"--interface": func(t *transfer, v string) error {
		if t.from = net.ParseIP(v); t.from == nil {
			return fmt.Errorf("curl: --interface %s: the specs give an address", v)
		}
		return nil
	},
	"--header": func(t *transfer, v string) error {
		name, value, _ := strings.Cut(v, ":")
		t.header.Add(name, strings.TrimSpace(value))
		return nil
	},
}

func seconds(value string, to *time.Duration) error {
	n, err := strconv.ParseFloat(value, 64)
	*to = time.Duration(n * float64(time.Second))
	return err
}

func parseTransfer(args []string) (*transfer, error) {
	t := &transfer{method: http.MethodGet, header: http.Header{}}
	for ; len(args) > 0; args = args[1:] {
		a := args[0]
		set, hasValue := values[a]
		switch {
		case hasValue && len(args) > 1:
			if err := set(t, args[1]); err != nil {
				return nil, err
			}
			args = args[1:]
		case strings.HasPrefix(a, "-X") && len(a) > 2:
			t.method = a[2:]
		case a == "--silent":
		case strings.HasPrefix(a, "-") && strings.Trim(a[1:], "giIkqsvL") == "" && a != "-":
			t.headers = t.headers || strings.ContainsAny(a, "iI")
			t.onlyHeaders = t.onlyHeaders || strings.Contains(a, "I")
		case strings.HasPrefix(a, "-"), t.url != "":
			return nil, fmt.Errorf("curl: %s is nothing that the specs use", a)
		default:
			t.url = a
		}
	}
	switch {
	case t.url == "":
		return nil, errors.New("usage: curl [OPTION ...] URL")
	case !strings.Contains(t.url, "://"):
		t.url = "http://" + t.url
	}
	if t.onlyHeaders {
		t.method = http.MethodHead
	}
	return t, nil
}

// curl prints the response to a request. It succeeds with each status.
func curl(args []string) error {
	t, err := parseTransfer(args)
	if err != nil {
		return err
	}
	var out io.Writer = os.Stdout
	if t.output != "" {
		f, err := os.Create(t.output)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		out = f
	}
	code, err := t.do(out)
	if t.format != "" {
		fmt.Print(strings.NewReplacer("%{http_code}", fmt.Sprintf("%03d", code), `\n`, "\n").Replace(t.format))
	}
	return err
}

// do writes the response and returns its status, 0 without one.
func (t *transfer) do(out io.Writer) (code int, err error) {
	ctx := context.Background()
	if t.all > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.all)
		defer cancel()
	}
	request, err := http.NewRequestWithContext(ctx, t.method, t.url, nil)
	if err != nil {
		return 0, err
	}
	request.Header = t.header
	dialer := &net.Dialer{Timeout: t.connect}
	if t.from != nil {
		dialer.LocalAddr = &net.TCPAddr{IP: t.from}
	}
	client := &http.Client{
		Transport: &http.Transport{DialContext: dialer.DialContext,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // the specs have -k wherever there is TLS
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if t.headers {
		fmt.Fprintf(out, "%s %s\r\n", response.Proto, response.Status)
		if err := response.Header.Write(out); err != nil {
			return 0, err
		}
		fmt.Fprint(out, "\r\n")
	}
	_, err = io.Copy(out, response.Body)
	return response.StatusCode, err
}
