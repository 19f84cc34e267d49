package oracle

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/images/pullmanager"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/image/credentials"
	"github.com/journalet/journalet/runtime/kubeletstate"
)

// pulledID is the runtime's id of the image of a case.
const pulledID = "sha256:0123"

// pulls are ways in which the agent may have pulled an image, with the credentials that its journal has; nil: the agent
// did not pull the image.
var pulls = []struct {
	how  string
	what *journaletv1.PullCredentials
}{
	{how: "not by the agent"},
	{"without credentials", &journaletv1.PullCredentials{NodeAccessible: true}},
	{withSecret, &journaletv1.PullCredentials{Secrets: []*journaletv1.PullSecret{
		{Namespace: "ns", Name: "s0", Uid: "uid-s0", Digest: "keyed"},
	}}},
	{"with unknown credentials", &journaletv1.PullCredentials{}},
	{"by another name", &journaletv1.PullCredentials{NodeAccessible: true, Repository: "other.example/app"}},
}

const withSecret = "with a Secret"

// comparePulls compares whether a pod without pull Secrets has to pull an image that is on the node: with the agent,
// and with a kubelet after a hand-back. A pod that has the Secret of the pull does not have to.
func comparePulls(c *testCase, w *credentialsCase) {
	policy, err := credentials.NewPolicy(w.Policy, w.Allowlist)
	if err != nil {
		return
	}
	theirPolicy, err := pullmanager.NewImagePullCredentialVerificationPolicy(
		kubeletconfig.ImagePullCredentialsVerificationPolicy(w.Policy), w.Allowlist)
	check("the kubelet's policy", err)
	pull, state := pulls[len(c.text)%len(pulls)], &journaletv1.ImageState{}
	if pull.what != nil {
		known := proto.CloneOf(pull.what)
		known.Repository = cmp.Or(known.GetRepository(), credentials.Repository(w.Image))
		state.Pulled = map[string]*journaletv1.PulledImage{
			pulledID: {Credentials: []*journaletv1.PullCredentials{known}},
		}
	}
	ours := ourPull(policy, w.Image, func(d *credentials.Driver) { d.Seed(state) })
	dir, err := os.MkdirTemp("", "pulls")
	check("create a directory", err)
	defer os.RemoveAll(dir)
	_, err = kubeletstate.Write(dir, kubeletstate.Given{Pulled: state.GetPulled()})
	check("write", err)
	theirs, err := theirPull(dir, theirPolicy, w.Image, nil)
	if c.count("pulled " + pull.how); err != nil || ours != theirs {
		c.differs("whether a pod has to pull an image that was pulled "+pull.how, ours, fmt.Sprint(theirs, err))
	}
	theirs, err = theirPull(dir, theirPolicy, w.Image, []kubeletconfig.ImagePullSecret{
		{UID: "uid-s0", Namespace: "ns", Name: "s0", CredentialHash: "theirs"},
	})
	if pull.how == withSecret && (err != nil || theirs) {
		c.differs("whether a pod with the Secret of the pull has to pull", false, fmt.Sprint(theirs, err))
	}
	compareTakenPulls(c, w, policy, theirPolicy)
}

// compareTakenPulls has a kubelet record a pull, every other one with a Secret, and compares what that kubelet after a
// restart and an agent in its place answer for a pod without pull Secrets.
func compareTakenPulls(c *testCase, w *credentialsCase, policy *credentials.Policy,
	theirPolicy pullmanager.ImagePullPolicyEnforcer) {
	dir, err := os.MkdirTemp("", "pulls")
	check("create a directory", err)
	defer os.RemoveAll(dir)
	check("write the file that every kubelet has", os.WriteFile(filepath.Join(dir, kubeletstate.CPUFile), []byte(
		`{"policyName":"none"}`), 0o600))
	has := &kubeletconfig.ImagePullCredentials{NodePodsAccessible: len(c.text)%2 == 0}
	if !has.NodePodsAccessible {
		has.KubernetesSecrets = []kubeletconfig.ImagePullSecret{
			{UID: "uid-s0", Namespace: "ns", Name: "s0", CredentialHash: "x"},
		}
	}
	m, err := pullsOf(dir, theirPolicy)
	check("the kubelet's records", err)
	check("record", m.RecordPullIntent(klog.Background(), w.Image))
	m.RecordImagePulled(context.Background(), w.Image, pulledID, has)
	theirs, err := theirPull(dir, theirPolicy, w.Image, nil)
	check("the kubelet's answer", err)
	started := messages.NewEvent(&journaletv1.AgentStarted{KubeletState: kubeletstate.Read(dir)})
	ours := ourPull(policy, w.Image, func(d *credentials.Driver) {
		d.Stored(&journaletv1.Record{Body: &journaletv1.Record_Fact{Fact: started}})
	})
	c.differs("whether a pod has to pull an image that a kubelet had pulled", ours, theirs)
	c.count("pulls taken over")
}

// ourPull returns whether the agent, once it knows of a pull, has a pod without pull Secrets pull an image that is on
// the node.
func ourPull(policy *credentials.Policy, image string, learn func(*credentials.Driver)) bool {
	agent := credentials.New(credentials.Options{RootDir: "/nonexistent", Objects: pullSecrets{}, Policy: policy,
		Digest: func(...string) string { return "" }, Log: slog.New(slog.DiscardHandler)})
	learn(agent)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	return agent.MustPull(context.Background(), pod, image, pulledID)
}

// pullsOf returns the kubelet's manager of image pulls in a root directory.
func pullsOf(dir string, policy pullmanager.ImagePullPolicyEnforcer) (*pullmanager.PullManager, error) {
	accessor, err := pullmanager.NewFSPullRecordsAccessor(klog.Background(), dir)
	if err != nil {
		return nil, err
	}
	return pullmanager.NewImagePullManager(context.Background(), accessor, policy, nil, 1)
}

// theirPull returns whether a kubelet that finds the state files of a hand-back in a directory has a pod with these
// Secrets pull an image that is on the node.
func theirPull(dir string, policy pullmanager.ImagePullPolicyEnforcer, image string,
	has []kubeletconfig.ImagePullSecret) (bool, error) {
	m, err := pullsOf(dir, policy)
	if err != nil {
		return false, err
	}
	return m.MustAttemptImagePull(context.Background(), image, pulledID,
		func() ([]kubeletconfig.ImagePullSecret, *kubeletconfig.ImagePullServiceAccount, error) {
			return has, nil, nil
		})
}
