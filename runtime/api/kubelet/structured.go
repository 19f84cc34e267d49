package kubelet

import (
	"encoding/json"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// What a client names to have a page as an object: Accept: application/json;as=Statusz;v=v1beta1;g=config.k8s.io.
const pageGroup = "config.k8s.io"

var pageVersions = []string{"v1alpha1", "v1beta1"}

// statuszPage is /statusz as an object.
type statuszPage struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        pageMeta    `json:"metadata"`
	StartTime       metav1.Time `json:"startTime"`
	UptimeSeconds   int64       `json:"uptimeSeconds"`
	GoVersion       string      `json:"goVersion"`
	BinaryVersion   string      `json:"binaryVersion"`
	Paths           []string    `json:"paths"`
}

// flagzPage is /flagz as an object.
type flagzPage struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        pageMeta          `json:"metadata"`
	Flags           map[string]string `json:"flags,omitempty"`
}

type pageMeta struct {
	Name string `json:"name"`
}

// pageForm is the form of a page that a client has requested.
type pageForm struct{ media, version string }

// formOf returns the form of a page for a client: text, or an object of the kind in a version that it names. ok is
// false if it takes none of these.
func formOf(r *http.Request, kind string) (form pageForm, ok bool) {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(accept) == "" {
		return pageForm{}, true
	}
	for clause := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(clause)
		switch {
		case err != nil:
		case params["as"] == "" && (media == "text/plain" || media == "text/*" || media == "*/*"):
			return pageForm{}, true
		case (media == "application/json" || media == "application/yaml") && params["as"] == kind &&
			params["g"] == pageGroup && slices.Contains(pageVersions, params["v"]):
			return pageForm{media, params["v"]}, true
		}
	}
	return pageForm{}, false
}

// structured answers with an object if the client has requested one, or takes no form of the page. It returns false if
// the client is to have text.
func structured(w http.ResponseWriter, r *http.Request, kind string, object func(metav1.TypeMeta) any) bool {
	form, ok := formOf(r, kind)
	switch {
	case !ok:
		fail(w, http.StatusNotAcceptable, "only the following media types are accepted: text/plain, "+
			"application/json and application/yaml with ;as="+kind+";v=v1beta1;g="+pageGroup)
		return true
	case form.media == "":
		return false
	}
	if form.version == pageVersions[0] {
		w.Header().Set("Warning", `299 - "v1alpha1 of this page is deprecated: request v1beta1"`)
	}
	data, err := json.Marshal(object(metav1.TypeMeta{Kind: kind, APIVersion: pageGroup + "/" + form.version}))
	if err == nil && form.media == "application/yaml" {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return true
	}
	w.Header().Set("Content-Type", form.media)
	_, _ = w.Write(data) // the client has left
	return true
}

func (s *Server) statuszObject(t metav1.TypeMeta) any {
	return statuszPage{
		TypeMeta: t, Metadata: pageMeta{component}, StartTime: metav1.NewTime(s.About.Started),
		UptimeSeconds: max(0, int64(time.Since(s.About.Started).Seconds())), GoVersion: runtime.Version(),
		BinaryVersion: s.About.Version, Paths: s.listed(),
	}
}

func (s *Server) flagzObject(t metav1.TypeMeta) any {
	page := flagzPage{TypeMeta: t, Metadata: pageMeta{component}, Flags: map[string]string{}}
	for _, f := range s.Flags() {
		page.Flags[f.Name] = f.Value
	}
	return page
}
