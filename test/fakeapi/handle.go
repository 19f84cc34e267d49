package fakeapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxBodyBytes is what a request may hold. API server: 3 MiB.
const maxBodyBytes = 3 << 20

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(rw http.ResponseWriter, hr *http.Request) {
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	if down {
		panic(http.ErrAbortHandler)
	}
	r, err := parse(hr)
	if err == nil {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		s.mu.Unlock()
		err = s.serve(rw, r)
	}
	if err != nil {
		refuse(rw, err)
	}
}

func refuse(rw http.ResponseWriter, err error) {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{http.StatusBadRequest, "BadRequest", err.Error()}
	}
	answer(rw, r.code, status(r.code, r.reason, r.message))
}

func answer(rw http.ResponseWriter, code int, body any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(code)
	_ = encoder(rw).Encode(body)
}

// encoder writes JSON without escapes for HTML, which make six bytes of one.
func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// parse reads a request's path: /api/v1 or /apis/<group>/<version>, [namespaces/<namespace>,] <resource>, a name, a
// subresource.
func parse(hr *http.Request) (APIRequest, error) {
	r := APIRequest{HTTP: hr}
	body, err := io.ReadAll(http.MaxBytesReader(nil, hr.Body, maxBodyBytes))
	if err != nil {
		return r, err
	}
	r.Body = body
	parts := strings.Split(strings.Trim(hr.URL.Path, "/"), "/")
	group := ""
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		group, parts = "."+parts[1], parts[3:]
	default:
		r.Verb, r.Resource = "get", hr.URL.Path
		return r, nil
	}
	if parts[0] == "namespaces" && len(parts) >= 3 {
		r.Namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	r.Resource, r.Name, r.Subresource = parts[0]+group, parts[1], parts[2]
	if _, known := kinds[r.Resource]; !known {
		return r, &refusal{http.StatusNotFound, "NotFound", "the server could not find the requested resource"}
	}
	r.Verb = verb(hr, r.Name)
	return r, nil
}

func verb(hr *http.Request, name string) string {
	switch hr.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	if w := hr.URL.Query().Get("watch"); w == "true" || w == "1" {
		return "watch"
	}
	if name == "" {
		return "list"
	}
	return "get"
}

// serve applies the fault of a request, if any, and carries it out.
func (s *Server) serve(rw http.ResponseWriter, r APIRequest) error {
	var f Fault
	if s.Faults != nil {
		if fault := s.Faults(r); fault != nil {
			f = *fault
		}
	}
	if f.Hold != nil {
		f.Hold(r.HTTP.Context())
	}
	if f.Refuse {
		panic(http.ErrAbortHandler)
	}
	if f.Serve != nil {
		f.Serve(rw, r.HTTP)
		return nil
	}
	if f.Body != "" {
		rw.WriteHeader(max(f.Code, http.StatusOK))
		_, err := io.WriteString(rw, f.Body)
		return err
	}
	if f.Code != 0 {
		if f.RetryAfter > 0 {
			rw.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		return &refusal{f.Code, f.Reason, f.Message}
	}
	if r.Verb == "watch" {
		return s.serveWatch(rw, r)
	}
	code, body, err := s.carryOut(r, f)
	if f.LostAnswer {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		return err
	}
	answer(rw, code, body)
	return nil
}

// carryOut performs a request, but for watches.
func (s *Server) carryOut(r APIRequest, f Fault) (int, any, error) {
	if group, version, ok := discovered(r.Resource); ok {
		return http.StatusOK, resources(group, version), nil
	}
	if strings.HasPrefix(r.Resource, "/") {
		return http.StatusOK, object{"major": "1", "minor": "37", "gitVersion": "v1.37.1"}, nil // health, version
	}
	if body, ok, err := s.review(r); ok {
		return http.StatusCreated, body, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{r.Resource, r.Namespace, r.Name}
	var o object
	var err error
	switch r.Verb {
	case "list":
		return http.StatusOK, s.listBody(r, f.StaleVersion), nil
	case "get":
		if o = s.objects[k]; o == nil {
			err = notFound(k)
		}
	case "create":
		if o, err = decodeBody(r.Body); err == nil {
			o, err = s.post(k, r.Subresource, o)
		}
		return http.StatusCreated, o, err
	case "update":
		if o, err = decodeBody(r.Body); err == nil {
			o, err = s.update(k, r.Subresource, o)
		}
	case "patch":
		o, err = s.patch(k, r)
	case "delete":
		o, err = s.deleteBody(k, r.Body)
	}
	return http.StatusOK, o, err
}

// discovered returns the group and the version that a path /apis/<group>/<version> discovers.
func discovered(path string) (group, version string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(path, "/apis/"), "/")
	if !strings.HasPrefix(path, "/apis/") || len(parts) != 2 {
		return "", "", false
	}
	return parts[0], parts[1], true
}

// resources returns what a group has. Every version of a group has all of it, unless Faults says otherwise.
func resources(group, version string) object {
	all := []any{}
	for name, k := range kinds {
		if plural, ok := strings.CutSuffix(name, "."+group); ok {
			all = append(all, object{"name": plural, "kind": k.kind, "namespaced": !k.clusterScoped, "verbs": []any{"list"}})
		}
	}
	return object{
		"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group + "/" + version, "resources": all,
	}
}

// post creates an object, or binds a pod. The caller holds s.mu.
func (s *Server) post(k key, subresource string, o object) (object, error) {
	if subresource == "" {
		if k.name == "" {
			k.name = o.text("metadata", "name")
		}
		return s.create(k, o, "")
	}
	pod := s.objects[k]
	if pod == nil {
		return nil, notFound(k)
	}
	if subresource != "binding" {
		return nil, &refusal{http.StatusNotFound, "NotFound", "no such subresource: " + subresource}
	}
	pod = pod.clone()
	pod.at("spec")["nodeName"] = o.text("target", "name")
	s.put(k, pod)
	return object{"kind": "Status", "apiVersion": "v1", "status": "Success", "code": http.StatusCreated}, nil
}

func (s *Server) deleteBody(k key, body []byte) (object, error) {
	var options metav1.DeleteOptions
	if len(body) > 0 {
		o, err := decodeBody(body)
		if err == nil {
			err = o.into(&options)
		}
		if err != nil {
			return nil, err
		}
	}
	uid, grace := "", -1
	if p := options.Preconditions; p != nil && p.UID != nil {
		uid = string(*p.UID)
	}
	if options.GracePeriodSeconds != nil {
		grace = int(*options.GracePeriodSeconds)
	}
	return s.remove(k, uid, grace)
}

func selectorOf(r APIRequest) string {
	selector := r.HTTP.URL.Query().Get("fieldSelector")
	if r.Name != "" {
		selector += ",metadata.name=" + r.Name
	}
	return selector
}

// listBody returns the list that a request selects. The caller holds s.mu.
func (s *Server) listBody(r APIRequest, version int) object {
	selector, labels := selectorOf(r), r.HTTP.URL.Query().Get("labelSelector")
	items := s.list(r.Resource, r.Namespace, func(o object) bool {
		return o.selects(selector) && o.hasLabels(labels)
	}, version)
	if version == 0 {
		version = s.version
	}
	return object{
		"apiVersion": kinds[r.Resource].apiVersion, "kind": kinds[r.Resource].kind + "List",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(version)}, "items": items,
	}
}
