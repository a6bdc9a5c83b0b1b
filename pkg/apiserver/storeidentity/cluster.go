// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// ConfigMapName is the name of the ConfigMap that knows which store the cluster's resources belong to.
	ConfigMapName = "inference-cache-store"
	// StoreIDKey is the ConfigMap's data key for the id of the store.
	StoreIDKey = "storeID"
	// StoreEpochKey is the ConfigMap's data key for the latest epoch of that store. Without it the epoch is 0.
	StoreEpochKey = "storeEpoch"
	// PreviousStoreIDKey is the ConfigMap's data key for the id of the store that was given up for the present one.
	PreviousStoreIDKey = "previousStoreID"
	// AcceptStoreAnnotation on the ConfigMap names the store that an operator accepts in place of the known one, by its
	// id, or an older state of the known one, as id@epoch. It holds for that and nothing else, and is removed once it has
	// been followed.
	AcceptStoreAnnotation = "inferencecache.io/accept-store"

	descriptionAnnotation = "kubernetes.io/description"
	description           = "Names the store that this cluster's inferencecache.io resources live in. " +
		"It keeps an empty, foreign or older store from being taken for it. Do not delete it."
)

// cluster reads and writes the identity in the host cluster.
type cluster struct {
	configMaps corev1client.ConfigMapInterface
	namespace  string
}

// read returns the record and the ConfigMap it comes from, nil if there is none. A get without a resourceVersion is
// answered from the cluster's own etcd, not from a cache.
func (c cluster) read(ctx context.Context) (clusterRecord, *corev1.ConfigMap, error) {
	cm, err := c.configMaps.Get(ctx, ConfigMapName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return clusterRecord{}, nil, nil
	}
	if err != nil {
		return clusterRecord{}, nil, c.explain("reading", err)
	}
	epoch, err := parseEpoch(cm.Data[StoreEpochKey])
	if err != nil { // not 0: that would let every older store through
		return clusterRecord{}, nil, fmt.Errorf("reading configmap %s/%s: %s is no epoch (put in its number, or a higher "+
			"one and accept the store as it is): %w", c.namespace, ConfigMapName, StoreEpochKey, err)
	}
	return clusterRecord{
		ID:       strings.TrimSpace(cm.Data[StoreIDKey]),
		Epoch:    epoch,
		Accepted: strings.TrimSpace(cm.Annotations[AcceptStoreAnnotation]),
	}, cm, nil
}

func parseEpoch(text string) (uint64, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, nil
	}
	return strconv.ParseUint(text, 10, 64)
}

// write makes the store the cluster's, on top of the ConfigMap that was read. If it was changed meanwhile, errStale.
func (c cluster) write(ctx context.Context, store storeRecord, read *corev1.ConfigMap) error {
	if read == nil {
		_, err := c.configMaps.Create(ctx, withStore(newConfigMap(c.namespace), store), metav1.CreateOptions{})
		return c.explain("creating", err)
	}
	_, err := c.configMaps.Update(ctx, withStore(read, store), metav1.UpdateOptions{})
	return c.explain("updating", err)
}

func newConfigMap(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:        ConfigMapName,
		Namespace:   namespace,
		Annotations: map[string]string{descriptionAnnotation: description},
	}}
}

// withStore is a copy with the store's id and epoch. An id that it replaces is kept as the previous one, for the operator
// who finds out too late that it was the right one. A consent to this store is used up, whatever state it names: none is
// left that would let the same old copy through once more.
func withStore(cm *corev1.ConfigMap, store storeRecord) *corev1.ConfigMap {
	cm = cm.DeepCopy()
	data := map[string]string{StoreIDKey: store.ID, StoreEpochKey: strconv.FormatUint(store.Epoch, 10)}
	if old := strings.TrimSpace(cm.Data[StoreIDKey]); old != "" && old != store.ID {
		data[PreviousStoreIDKey] = old
	}
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
	maps.Copy(cm.Data, data)
	if accepted, _, _ := strings.Cut(strings.TrimSpace(cm.Annotations[AcceptStoreAnnotation]), "@"); accepted == store.ID {
		delete(cm.Annotations, AcceptStoreAnnotation)
	}
	return cm
}

// explain turns an answer of the cluster into what to do about it.
func (c cluster) explain(verb string, err error) error {
	what := fmt.Sprintf("%s configmap %s/%s", verb, c.namespace, ConfigMapName)
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return errStale
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("%s: namespace %s is being deleted: create it anew when it is gone: %w", what, c.namespace, err)
	case apierrors.IsNotFound(err) && verb == "updating":
		return errStale // deleted since it was read
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: create namespace %s first: %w", what, c.namespace, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: this server's account needs get and update on this configmap, and create on configmaps, "+
			"in namespace %s: %w", what, c.namespace, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the cluster does not accept this server's credentials: %w", what, err)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}
