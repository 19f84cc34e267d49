package kubelet

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/test/must"
)

func TestWhatNamesNoContainerBeginsNoSession(t *testing.T) {
	n := newNode(t, nil)
	long := strings.Repeat("x", 200<<10)
	for _, path := range []string{
		"/exec/default/web/%FF?command=id&output=1", "/attach/default/web/%FF?output=1", "/run/default/web/%FF?cmd=id",
		"/exec/default/web/" + long + "?command=id&output=1", "/exec/default/web/uid-2/main?command=id&output=1",
		"/exec/default/%FF/main?command=id&output=1", "/run/default/web/none?cmd=id",
	} {
		if code, text := n.do(http.MethodPost, path); code < http.StatusBadRequest {
			t.Errorf("%.40s: %d %.100s", path, code, text)
		}
	}
	n.record.mu.Lock()
	defer n.record.mu.Unlock()
	if len(n.record.started) > 0 {
		t.Errorf("began %.500v", n.record.started)
	}
}

// odd is a client with a name that no record can have.
type odd struct{}

func (odd) ID() string     { return "odd" }
func (odd) String() string { return "odd\xff" + strings.Repeat("ä", 1<<20) }

func TestARecordOfASessionCanBeStored(t *testing.T) {
	n := newNode(t, nil)
	s := New(Options{Pods: fakePods{webPod()}, Sessions: n.record})
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody).WithContext(WithClient(context.Background(), odd{}))
	x := s.begin(httptest.NewRecorder(), r, webPod(), what{container: "main\xff", command: []string{"/bin/\xff\xfe"}})
	x.end()
	start, end := n.record.last(t, 0)
	for _, m := range []proto.Message{start, end} {
		_, err := proto.Marshal(clean.Fact(messages.NewEvent(m)))
		must.OK(t, err)
	}
	if c := clean.Fact(messages.NewEvent(start)).GetSessionStarted(); !strings.HasPrefix(c.GetClient(), "odd\ufffdä") ||
		!strings.HasPrefix(c.GetContainer(), "main\ufffd~") || c.GetCommand() != "\ufffd\ufffd" {
		t.Errorf("recorded of the client: %d bytes %.20q, of the container %q, of the command %q", len(c.GetClient()),
			c.GetClient(), c.GetContainer(), c.GetCommand())
	}
}
