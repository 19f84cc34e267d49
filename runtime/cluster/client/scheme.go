package client

import (
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Scheme returns the scheme of the API groups that a node uses. It is built at the first call.
var Scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, storagev1.AddToScheme, certificatesv1.AddToScheme,
		certificatesv1beta1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme, nodev1.AddToScheme,
		resourcev1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
})

// codecs returns the codecs of Scheme.
var codecs = sync.OnceValue(func() serializer.CodecFactory { return serializer.NewCodecFactory(Scheme()) })

// ParameterCodec encodes the options of a request.
var ParameterCodec = metav1.ParameterCodec

// Resource is one kind of object at the API server. T is its Go type.
type Resource[T any] struct {
	// GroupVersion and Name are the group version and the name in its path.
	GroupVersion schema.GroupVersion
	Name         string
	// Namespaced reports whether its objects are in namespaces.
	Namespaced bool
	// Reduced drops what nobody reads of an object, as soon as it was read: a list may have more than fits the memory.
	// Nil: managedFields are dropped.
	Reduced func(*T)

	// stubs: an object that cannot be read is shown by its name and UID (Unreadable), instead of not at all.
	stubs  bool
	object func(*T) runtime.Object
	list   func() runtime.Object
}

// The resources that a node uses.
var (
	Pods     = stubs(define[corev1.Pod, corev1.PodList](corev1.SchemeGroupVersion, "pods", true))
	Nodes    = define[corev1.Node, corev1.NodeList](corev1.SchemeGroupVersion, "nodes", false)
	Services = define[corev1.Service, corev1.ServiceList](
		corev1.SchemeGroupVersion, "services", true).With(bareService)
	ConfigMaps      = define[corev1.ConfigMap, corev1.ConfigMapList](corev1.SchemeGroupVersion, "configmaps", true)
	Secrets         = define[corev1.Secret, corev1.SecretList](corev1.SchemeGroupVersion, "secrets", true)
	Events          = define[corev1.Event, corev1.EventList](corev1.SchemeGroupVersion, "events", true)
	Namespaces      = define[corev1.Namespace, corev1.NamespaceList](corev1.SchemeGroupVersion, "namespaces", false)
	ServiceAccounts = define[corev1.ServiceAccount, corev1.ServiceAccountList](
		corev1.SchemeGroupVersion, "serviceaccounts", true)
	PersistentVolumes = define[corev1.PersistentVolume, corev1.PersistentVolumeList](
		corev1.SchemeGroupVersion, "persistentvolumes", false)
	PersistentVolumeClaims = define[corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimList](
		corev1.SchemeGroupVersion, "persistentvolumeclaims", true)
	Leases  = define[coordinationv1.Lease, coordinationv1.LeaseList](coordinationv1.SchemeGroupVersion, "leases", true)
	CSINode = define[storagev1.CSINode, storagev1.CSINodeList](storagev1.SchemeGroupVersion, "csinodes", false)
	// VolumeAttachments are read one at a time, and CSIDrivers also followed.
	CSIDrivers = define[storagev1.CSIDriver, storagev1.CSIDriverList](
		storagev1.SchemeGroupVersion, "csidrivers", false)
	VolumeAttachments = define[storagev1.VolumeAttachment, storagev1.VolumeAttachmentList](
		storagev1.SchemeGroupVersion, "volumeattachments", false)
	// ResourceClaims are read one at a time.
	ResourceClaims = define[resourcev1.ResourceClaim, resourcev1.ResourceClaimList](
		resourcev1.SchemeGroupVersion, "resourceclaims", true)
	// ResourceSlices of a node are listed once, and deleted.
	ResourceSlices = define[resourcev1.ResourceSlice, resourcev1.ResourceSliceList](
		resourcev1.SchemeGroupVersion, "resourceslices", false)

	CertificateSigningRequests = define[
		certificatesv1.CertificateSigningRequest, certificatesv1.CertificateSigningRequestList,
	](certificatesv1.SchemeGroupVersion, "certificatesigningrequests", false)
	// PodCertificateRequests are created by a node, which follows the requests that name it.
	PodCertificateRequests = define[certificatesv1.PodCertificateRequest, certificatesv1.PodCertificateRequestList](
		certificatesv1.SchemeGroupVersion, "podcertificaterequests", true).With(bareRequest)
	RuntimeClasses = define[nodev1.RuntimeClass, nodev1.RuntimeClassList](
		nodev1.SchemeGroupVersion, "runtimeclasses", false).With(bareClass)

	// TokenReviews and SubjectAccessReviews are only created; the answer is the object with its status.
	TokenReviews = define[authenticationv1.TokenReview, metav1.Status](
		authenticationv1.SchemeGroupVersion, "tokenreviews", false)
	SubjectAccessReviews = define[authorizationv1.SubjectAccessReview, metav1.Status](
		authorizationv1.SchemeGroupVersion, "subjectaccessreviews", false)
)

// ClusterTrustBundles are the versions of this resource that a node reads, the best first. An API server has one or
// more of them, or none. Objects of v1beta1 have the fields of v1, also in protobuf.
var ClusterTrustBundles = []Resource[certificatesv1.ClusterTrustBundle]{
	trustBundles(certificatesv1.SchemeGroupVersion), trustBundles(certificatesv1beta1.SchemeGroupVersion),
}

func trustBundles(gv schema.GroupVersion) Resource[certificatesv1.ClusterTrustBundle] {
	return define[certificatesv1.ClusterTrustBundle, certificatesv1.ClusterTrustBundleList](
		gv, "clustertrustbundles", false).With(bareBundle)
}

// pointer is a pointer to an API object.
type pointer[T any] interface {
	*T
	runtime.Object
}

// define returns a resource of objects T with lists L.
func define[T, L any, P pointer[T], Q pointer[L]](gv schema.GroupVersion, name string, namespaced bool) Resource[T] {
	return Resource[T]{
		GroupVersion: gv, Name: name, Namespaced: namespaced,
		object: func(o *T) runtime.Object { return P(o) },
		list:   func() runtime.Object { return Q(new(L)) },
	}
}

func stubs[T any](r Resource[T]) Resource[T] {
	r.stubs = true
	return r
}

// With returns the resource with objects that are reduced as they are read.
func (r Resource[T]) With(reduced func(*T)) Resource[T] {
	r.Reduced = reduced
	return r
}

// bare returns what names an object.
func bare(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp,
	}
}

// bareService leaves what the variables of containers come from.
func bareService(s *corev1.Service) {
	*s = corev1.Service{ObjectMeta: bare(&s.ObjectMeta), Spec: corev1.ServiceSpec{
		Type: s.Spec.Type, ClusterIP: s.Spec.ClusterIP, Ports: s.Spec.Ports,
	}}
}

func bareClass(c *nodev1.RuntimeClass) {
	*c = nodev1.RuntimeClass{ObjectMeta: bare(&c.ObjectMeta), Handler: c.Handler}
}

// bareBundle leaves what selects a trust bundle, and its certificates.
func bareBundle(b *certificatesv1.ClusterTrustBundle) {
	m := bare(&b.ObjectMeta)
	m.Labels = b.Labels
	*b = certificatesv1.ClusterTrustBundle{ObjectMeta: m, Spec: b.Spec}
}

// bareRequest leaves what a request is found by, and its answer.
func bareRequest(r *certificatesv1.PodCertificateRequest) {
	*r = certificatesv1.PodCertificateRequest{
		ObjectMeta: bare(&r.ObjectMeta), Status: r.Status,
		Spec: certificatesv1.PodCertificateRequestSpec{StubPKCS10Request: r.Spec.StubPKCS10Request},
	}
}
