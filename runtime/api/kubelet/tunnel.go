package kubelet

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/websocket"
	protocol "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// tunnel serves a client that sends SPDY within a WebSocket: the frames go to the runtime as they are.
func (x *session) tunnel(w http.ResponseWriter, r *http.Request, location *url.URL) {
	versions := spdyVersions(r)
	if len(versions) == 0 {
		fail(w, http.StatusBadRequest, "unable to upgrade: no tunneling spdy protocols provided")
		return
	}
	conn, err := x.upgrader(location).DialForUpgrade(spdyRequest(r.WithContext(x.ctx), location, versions))
	if err != nil {
		responder{x}.Error(w, r, err)
		return
	}
	defer conn.Close()
	from := bufio.NewReader(conn)
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		responder{x}.Error(w, r, err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		x.fail(failedRefused)
		w.WriteHeader(resp.StatusCode)
		_, _ = io.CopyN(w, resp.Body, maxBodyBytes) // shorter, most often; or the client has left
		return
	}
	upgrade := websocket.Upgrader{
		HandshakeTimeout: answerTimeout, CheckOrigin: func(*http.Request) bool { return true }, // the door has checked
		Subprotocols: []string{
			protocol.WebsocketsSPDYTunnelingPrefix + resp.Header.Get(httpstream.HeaderProtocolVersion),
		},
	}
	ws, err := upgrade.Upgrade(w, r, nil) // on an error it has answered
	if err != nil {
		x.fail(failedStream)
		return
	}
	client := portforward.NewTunnelingConnection("server", ws)
	defer client.Close()
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(conn, client); done <- struct{}{} }()
	go func() { _, _ = io.Copy(client, from); done <- struct{}{} }()
	<-done
	conn.Close()
	x.cancel() // closes the client's connection, without waiting for it
	<-done
}

// spdyVersions returns the port-forward protocols that the client accepts within a WebSocket.
func spdyVersions(r *http.Request) (out []string) {
	for _, p := range websocket.Subprotocols(r) {
		if v, ok := strings.CutPrefix(p, protocol.WebsocketsSPDYTunnelingPrefix); ok &&
			strings.HasSuffix(v, protocol.KubernetesSuffix) {
			out = append(out, v)
		}
	}
	return out
}

// spdyRequest returns the client's request as one for SPDY.
func spdyRequest(r *http.Request, location *url.URL, versions []string) *http.Request {
	out := r.Clone(r.Context())
	out.Method, out.Body, out.URL = http.MethodPost, nil, location
	for _, h := range []string{
		wsstream.WebSocketProtocolHeader, "Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Extensions",
		httpstream.HeaderUpgrade, httpstream.HeaderProtocolVersion,
	} {
		out.Header.Del(h)
	}
	out.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	out.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	for _, v := range versions {
		out.Header.Add(httpstream.HeaderProtocolVersion, v)
	}
	return out
}
