package query

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/actors/image"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// maxImageNames bounds the images of one request, and maxImageName the bytes of one name.
	maxImageNames = 1000
	maxImageName  = 512
	// minPrefix is the shortest part of an image's id that names it, as docker and crictl accept it.
	minPrefix = 4
)

// ImageUser is a container that uses an image.
type ImageUser struct {
	ContainerID string `json:"containerID"`
	// The others are empty for a container that no Kubernetes agent created.
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	// Volume reports that the image is mounted as a volume.
	Volume  bool `json:"volume,omitempty"`
	Running bool `json:"running"`
}

// ImageInfo is one image on the node.
type ImageInfo struct {
	ID     string   `json:"id"`
	Names  []string `json:"names"`
	Bytes  int64    `json:"bytes"`
	Pinned bool     `json:"pinned,omitempty"`
	// UsedBy are the containers that use it, dead ones included.
	UsedBy []ImageUser `json:"usedBy,omitempty"`
	// FirstSeen and LastUsed are what the journal knows; zero for an image that it does not know yet.
	FirstSeen time.Time `json:"firstSeen,omitzero"`
	LastUsed  time.Time `json:"lastUsed,omitzero"`
	// Removing reports that its removal is requested.
	Removing bool `json:"removing,omitempty"`
}

// Name returns a name for people: the first one with a tag, else any, else the id.
func (i *ImageInfo) Name() string {
	return image.NameOf(&journaletv1.ImageObservation{Id: i.ID, Names: i.Names})
}

// ImageFilesystem is the file system of the images.
type ImageFilesystem struct {
	Mountpoint     string `json:"mountpoint"`
	CapacityBytes  int64  `json:"capacityBytes"`
	AvailableBytes int64  `json:"availableBytes"`
	UsedPercent    int64  `json:"usedPercent"`
}

// ImageList is the images on the node, by id.
type ImageList struct {
	Images []ImageInfo `json:"images"`
	// Filesystem is nil if it cannot be measured; Problem is why.
	Filesystem *ImageFilesystem `json:"filesystem,omitempty"`
	Problem    string           `json:"problem,omitempty"`
}

// ImagesRequest requests pulls or removals of images.
type ImagesRequest struct {
	// Images are names to pull. To remove: names, ids, or first parts of ids.
	Images []string `json:"images"`
	// Client is who requests it, for the journal.
	Client string `json:"client"`
}

// ImageRequest is one request that was recorded.
type ImageRequest struct {
	ID    string `json:"id"`
	Image string `json:"image"`
}

// ImagesResponse names the requests of an ImagesRequest. Their outcomes are events: operator_pull_decided and
// image_removal_decided with the request's id.
type ImagesResponse struct {
	Requests []ImageRequest `json:"requests"`
	// From is a record before all outcomes.
	From uint64 `json:"from"`
}

func (q *ImagesRequest) check() error {
	switch {
	case len(q.Images) == 0:
		return badRequest("the request names no image")
	case len(q.Images) > maxImageNames:
		return badRequest("%d images, at most %d", len(q.Images), maxImageNames)
	}
	if err := checkClient(q.Client); err != nil {
		return err
	}
	for _, name := range q.Images {
		if name == "" || len(name) > maxImageName || strings.TrimSpace(name) != name {
			return badRequest("image name %.100q: want 1 to %d bytes without spaces around them", name, maxImageName)
		}
	}
	return nil
}

// listImages returns what the runtime has now.
func (s *server) listImages(ctx context.Context, _ struct{}) (*ImageList, error) {
	if s.Images == nil {
		return nil, &Error{CodeUnavailable, "this agent does not list images"}
	}
	return s.Images(ctx)
}

// pullImages records requests to pull images.
func (s *server) pullImages(ctx context.Context, q ImagesRequest) (*ImagesResponse, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	out := &ImagesResponse{From: s.Journal.Last() + 1}
	for _, name := range q.Images {
		id := rand.Text()
		e := &journaletv1.OperatorPullRequested{RequestId: id, Image: name, Client: q.Client}
		if _, err := s.record(ctx, messages.Image, e); err != nil {
			return nil, err
		}
		out.Requests = append(out.Requests, ImageRequest{ID: id, Image: name})
	}
	return out, nil
}

// removeImages records requests to remove images. It records none if one of the names is of no image.
func (s *server) removeImages(ctx context.Context, q ImagesRequest) (*ImagesResponse, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	list, err := s.listImages(ctx, struct{}{})
	if err != nil {
		return nil, err
	}
	var found []*ImageInfo
	for _, name := range q.Images {
		i, err := list.Find(name)
		if err != nil {
			return nil, err
		}
		found = append(found, i)
	}
	out := &ImagesResponse{From: s.Journal.Last() + 1}
	for n, i := range found {
		if slices.Index(found, i) < n {
			continue // named twice
		}
		id := rand.Text()
		e := &journaletv1.ImageRemovalRequested{RequestId: id, ImageId: i.ID, Name: i.Name(), Client: q.Client}
		if _, err := s.record(ctx, messages.Image, e); err != nil {
			return nil, err
		}
		out.Requests = append(out.Requests, ImageRequest{ID: id, Image: i.Name()})
	}
	return out, nil
}

// Find returns the image with a name, an id, or an id that begins so. An error names what is ambiguous or missing.
func (l *ImageList) Find(name string) (*ImageInfo, error) {
	full := image.FullName(name)
	var begins []*ImageInfo
	for n := range l.Images {
		i := &l.Images[n]
		if i.ID == name || slices.Contains(i.Names, name) || slices.Contains(i.Names, full) {
			return i, nil
		}
		hex := strings.TrimPrefix(name, "sha256:")
		if len(hex) >= minPrefix && strings.HasPrefix(strings.TrimPrefix(i.ID, "sha256:"), hex) {
			begins = append(begins, i)
		}
	}
	switch len(begins) {
	case 0:
		return nil, notFound("image %q is not on the node; `journalet images` lists those that are", name)
	case 1:
		return begins[0], nil
	}
	return nil, badRequest("%d images have an id that begins with %q: name more of it", len(begins), name)
}

// Images returns the images on the node.
func (c *Client) Images(ctx context.Context) (*ImageList, error) {
	a := &ImageList{}
	return a, c.request(ctx, ImagesList, struct{}{}, a, clientTimeout)
}

// PullImages requests pulls. It needs the control key, as RemoveImages does.
func (c *Client) PullImages(ctx context.Context, q ImagesRequest) (*ImagesResponse, error) {
	a := &ImagesResponse{}
	return a, c.request(ctx, ImagesPull, q, a, clientTimeout)
}

// RemoveImages requests removals.
func (c *Client) RemoveImages(ctx context.Context, q ImagesRequest) (*ImagesResponse, error) {
	a := &ImagesResponse{}
	return a, c.request(ctx, ImagesRemove, q, a, clientTimeout)
}
