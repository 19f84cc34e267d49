package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/reap"
)

func (s *Server) runRoutes() {
	for _, to := range []string{"/{namespace}/{pod}/{container}", "/{namespace}/{pod}/{uid}/{container}"} {
		s.handle(http.MethodPost, "/run"+to, http.HandlerFunc(s.run))
	}
	s.handle(http.MethodPost, "/checkpoint/{namespace}/{pod}/{container}", http.HandlerFunc(s.checkpoint))
}

// run runs a command in a container and answers with its output: the runtime's connection keeps the first 10 KiB of
// each kind. The command ends with its client.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	p := s.pod(w, r)
	if p == nil {
		return
	}
	name, cmd := r.PathValue("container"), strings.Split(r.FormValue("cmd"), " ")
	if !s.has(p, r.PathValue("uid"), name) {
		fail(w, http.StatusInternalServerError, fmt.Sprintf("container not found (%q)", name))
		return
	}
	x := s.begin(w, r, p, what{kind: journaletv1.SessionKind_SESSION_KIND_EXEC, container: name, command: cmd})
	if x == nil {
		return
	}
	defer x.end()
	id, err := s.containerID(x.ctx, p, r.PathValue("uid"), name)
	if err == nil && id == "" {
		err = fmt.Errorf("container not found (%q)", name)
	}
	var resp *runtimeapi.ExecSyncResponse
	if err == nil {
		resp, err = s.Reaper.Exec(x.ctx, s.Runtime, id, cmd, 0, reap.Kind{Always: true})
	}
	switch code := resp.GetExitCode(); {
	case err != nil:
		x.fail(failedRefused)
	case code != 0:
		x.exited(code)
		err = fmt.Errorf("command '%s' exited with %d: %s", strings.Join(cmd, " "), code, resp.GetStderr())
	default:
		x.exited(0)
	}
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	writeJSON(w, append(resp.GetStdout(), resp.GetStderr()...))
}

// checkpoint has the runtime write the state of a container into an archive.
func (s *Server) checkpoint(w http.ResponseWriter, r *http.Request) {
	p := s.pod(w, r)
	if p == nil {
		return
	}
	name := r.PathValue("container")
	if containers.Find(p, name) == nil {
		fail(w, http.StatusNotFound, fmt.Sprintf("container %v does not exist", name))
		return
	}
	var timeout int64
	if all := r.URL.Query()["timeout"]; len(all) > 0 {
		var err error
		if timeout, err = strconv.ParseInt(all[len(all)-1], 10, 64); err != nil {
			fail(w, http.StatusNotFound, "cannot parse value of timeout parameter")
			return
		}
	}
	x := s.begin(w, r, p, what{kind: journaletv1.SessionKind_SESSION_KIND_CHECKPOINT, container: name})
	if x == nil {
		return
	}
	defer x.end()
	path, err := s.writeCheckpoint(x.ctx, p, name, timeout)
	if err != nil {
		x.fail(failedRefused)
		fail(w, http.StatusInternalServerError,
			fmt.Sprintf("checkpointing of %s/%s/%s failed (%v)", p.Namespace, p.Name, name, err))
		return
	}
	data, err := json.Marshal(map[string][]string{"items": {path}})
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	writeJSON(w, data)
}

func (s *Server) writeCheckpoint(ctx context.Context, p *corev1.Pod, name string, timeout int64) (string, error) {
	id, err := s.containerID(ctx, p, "", name)
	switch {
	case err != nil:
		return "", err
	case id == "":
		return "", fmt.Errorf("container %v not found", name)
	case s.CheckpointDir == "":
		return "", fmt.Errorf("this agent has no directory for checkpoints")
	}
	// An archive holds the memory of the container.
	if err := os.MkdirAll(s.CheckpointDir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(s.CheckpointDir,
		fmt.Sprintf("checkpoint-%s-%s-%s.tar", fullName(p), name, time.Now().Format(time.RFC3339)))
	_, err = s.Runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{
		ContainerId: id, Location: path, Timeout: timeout,
	})
	return path, err
}
