package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// RequestTimeout bounds a request whose context has no deadline. A write with an unknown outcome is repeated by its
// driver, so a late answer is of no use.
const RequestTimeout = 30 * time.Second

// Get returns an object. namespace is empty for a resource without namespaces. Get and the functions below return
// errors of apimachinery's package api/errors, or of the transport.
func Get[T any](ctx context.Context, c *Client, r Resource[T], namespace, name string) (*T, error) {
	return send(ctx, c.REST(r.GroupVersion).Get(), r, namespace, name)
}

// List returns one list as its list type, such as *corev1.PodList. Use ListWatch with a Reflector to follow objects.
func List[T any](ctx context.Context, c *Client, r Resource[T], namespace string,
	opts metav1.ListOptions,
) (runtime.Object, error) {
	ctx, cancel := deadline(ctx)
	defer cancel()
	request := at(c.REST(r.GroupVersion).Get(), r, namespace).VersionedParams(&opts, ParameterCodec)
	return newLists(c.shared.leftOut, r, false).page(ctx, request, "")
}

// Create creates an object and returns it as the API server has stored it.
func Create[T any](ctx context.Context, c *Client, r Resource[T], namespace string, object *T) (*T, error) {
	return send(withVerb(ctx, http.MethodPost), c.REST(r.GroupVersion).Post().Body(r.object(object)), r, namespace, "")
}

// Update replaces an object; with the resourceVersion that it carries as a precondition, if it has one.
func Update[T any](ctx context.Context, c *Client, r Resource[T], namespace, name string, object *T,
	subresources ...string,
) (*T, error) {
	req := c.REST(r.GroupVersion).Put().Body(r.object(object))
	return send(withVerb(ctx, http.MethodPut), req, r, namespace, name, subresources...)
}

// Patch patches an object, or one of its subresources, such as status.
func Patch[T any](ctx context.Context, c *Client, r Resource[T], namespace, name string, kind types.PatchType,
	patch []byte, subresources ...string,
) (*T, error) {
	req := c.REST(r.GroupVersion).Patch(kind).Body(patch)
	return send(withVerb(ctx, http.MethodPatch), req, r, namespace, name, subresources...)
}

// Delete deletes an object. Without an error it is gone, or finalizers hold it.
func Delete[T any](ctx context.Context, c *Client, r Resource[T], namespace, name string,
	opts metav1.DeleteOptions,
) error {
	ctx, cancel := deadline(withVerb(ctx, http.MethodDelete))
	defer cancel()
	return at(c.REST(r.GroupVersion).Delete(), r, namespace).Name(name).Body(&opts).Do(ctx).Error()
}

// DeleteCollection deletes the objects of a resource that a field selector such as "spec.nodeName=worker" selects.
func DeleteCollection[T any](ctx context.Context, c *Client, r Resource[T], namespace, fieldSelector string) error {
	ctx, cancel := deadline(withVerb(ctx, http.MethodDelete))
	defer cancel()
	return at(c.REST(r.GroupVersion).Delete(), r, namespace).
		VersionedParams(&metav1.ListOptions{FieldSelector: fieldSelector}, ParameterCodec).
		Body(&metav1.DeleteOptions{}).Do(ctx).Error()
}

// RequestToken requests a token of a service account that is bound to a pod of its namespace. audience is empty for the
// API server's own, seconds nil for its default. An answer without a token is an error.
func RequestToken(ctx context.Context, c *Client, pod types.NamespacedName, uid types.UID, account, audience string,
	seconds *int64,
) (*authenticationv1.TokenRequest, error) {
	in := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: uid},
	}}
	if audience != "" {
		in.Spec.Audiences = []string{audience}
	}
	ctx, cancel := deadline(withVerb(ctx, http.MethodPost))
	defer cancel()
	out := &authenticationv1.TokenRequest{}
	err := at(c.REST(ServiceAccounts.GroupVersion).Post(), ServiceAccounts, pod.Namespace).Name(account).
		SubResource("token").Body(in).Do(ctx).Into(out)
	if err == nil && out.Status.Token == "" {
		err = errors.New("the API server answered without a token")
	}
	return out, err
}

// ListWatch returns the lists and watches of a Reflector. namespace and fieldSelector, such as
// "spec.nodeName=worker", may be empty: all. A list of another kind of objects, and one without an end, is an error; an
// object that cannot be read is left out by itself. It is for one Reflector: its lists follow each other. change
// changes each request.
func ListWatch[T any](c *Client, r Resource[T], namespace, fieldSelector string,
	change ...func(*rest.Request) *rest.Request,
) (*cache.ListWatch, error) {
	selector, err := fields.ParseSelector(fieldSelector)
	if err != nil {
		return nil, err
	}
	request := func(o metav1.ListOptions) *rest.Request {
		o.FieldSelector = selector.String()
		out := at(c.REST(r.GroupVersion).Get(), r, namespace).VersionedParams(&o, ParameterCodec)
		for _, f := range change {
			out = f(out)
		}
		return out
	}
	_, one := selector.RequiresExactMatch(metav1.ObjectNameField)
	return newLists(c.shared.leftOut, r, one).listWatch(request), nil
}

// ListWatchInto is ListWatch for all objects of a resource, or for the objects that a field selector selects. Its lists
// are never in memory: take gets each object as soon as it is read. begin is called as a list begins, and returns the
// list's take, which any goroutine may call. The list is complete when the store of the Reflector is replaced with an
// empty one: what was taken since the last begin is the list. A list that fails is never complete. The caller bounds
// the objects; ListWatchInto does not bound their number. change changes each request.
func ListWatchInto[T any](c *Client, r Resource[T], selected fields.Selector, begin func() (take func(*T)),
	change ...func(*rest.Request) *rest.Request,
) *cache.ListWatch {
	all := newLists(c.shared.leftOut, r, false)
	all.begin = begin
	return all.listWatch(func(o metav1.ListOptions) *rest.Request {
		o.FieldSelector = selected.String()
		out := at(c.REST(r.GroupVersion).Get(), r, metav1.NamespaceAll).VersionedParams(&o, ParameterCodec)
		for _, f := range change {
			out = f(out)
		}
		return out
	})
}

// Serves reports whether the API server has a resource of a group, by discovery.
func Serves[T any](ctx context.Context, c *Client, r Resource[T]) (bool, error) {
	ctx, cancel := deadline(ctx)
	defer cancel()
	all, err := decode[metav1.APIResourceList](c.REST(r.GroupVersion).Get().MaxRetries(0).
		AbsPath("/apis", r.GroupVersion.Group, r.GroupVersion.Version).Do(ctx))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(all.APIResources, func(one metav1.APIResource) bool { return one.Name == r.Name }), nil
}

// listWatch returns the lists and watches of requests.
func (l *lists[T]) listWatch(request func(metav1.ListOptions) *rest.Request) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return l.page(ctx, request(o), o.Continue)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			ctx, end := withWatchTimeout(ctx, o.TimeoutSeconds)
			w, err := l.watch(ctx, request(o), o.SendInitialEvents != nil && *o.SendInitialEvents, end)
			if err != nil {
				end()
				return nil, err
			}
			return ending{w, end}, nil
		},
	}
}

// send sends a request and returns the object of its answer.
func send[T any](ctx context.Context, req *rest.Request, r Resource[T], namespace, name string,
	subresources ...string,
) (*T, error) {
	ctx, cancel := deadline(ctx)
	defer cancel()
	req = at(req, r, namespace)
	if name != "" {
		req = req.Name(name)
	}
	if len(subresources) > 0 {
		req = req.SubResource(subresources...)
	}
	return decode[T](req.Do(ctx))
}

// at sets the path of a resource.
func at[T any](req *rest.Request, r Resource[T], namespace string) *rest.Request {
	return req.NamespaceIfScoped(namespace, r.Namespaced).Resource(r.Name)
}

// deadline bounds a context without a deadline.
func deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, RequestTimeout)
}
