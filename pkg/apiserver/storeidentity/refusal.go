// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package storeidentity

import "fmt"

// refusal says what is wrong and the ways out, as commands to copy: it is all that an operator sees.
func refusal(inStore storeRecord, inCluster clusterRecord, namespace string, exists bool) error {
	kubectl := fmt.Sprintf("kubectl -n %s ", namespace)
	annotate := fmt.Sprintf("annotate --overwrite configmap %s %s=", ConfigMapName, AcceptStoreAnnotation)
	if inStore.isBehind(inCluster) {
		return fmt.Errorf("this is an older state of store %s (epoch %d, the cluster has seen %d): a backup was restored "+
			"or a former volume mounted; mount the newer one, or accept this state and lose what was written since with: %s",
			inStore.ID, inStore.Epoch, inCluster.Epoch, kubectl+annotate+inStore.state())
	}
	accept := annotate + inStore.ID
	if !exists {
		accept = fmt.Sprintf("create configmap %s --from-literal=%s=%s", ConfigMapName, StoreIDKey, inStore.ID)
	}
	if inCluster.ID == "" {
		return fmt.Errorf("store %s was given to this server in place of another, and the cluster no longer knows of which "+
			"(configmap %s/%s was emptied or deleted): mount the right one, or accept this one and lose the other with: %s",
			inStore.ID, namespace, ConfigMapName, kubectl+accept)
	}
	return fmt.Errorf("the cluster's resources belong to store %s, but this server has store %s "+
		"(data directory or etcd prefix changed?): mount the right one, or accept this one and lose the old with: %s",
		inCluster.ID, inStore.ID, kubectl+accept)
}
