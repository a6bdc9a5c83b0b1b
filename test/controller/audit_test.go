// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

const controllerUser = "system:serviceaccount:inference-cache-system:inference-cache-controller"

// request is a line of the audit log of kube-apiserver, through which all requests go.
type request struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource, Subresource, Namespace, Name string
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
}

func (r request) String() string {
	return fmt.Sprintf("%s %s/%s %s/%s: %d", r.Verb, r.ObjectRef.Resource, r.ObjectRef.Subresource, r.ObjectRef.Namespace,
		r.ObjectRef.Name, r.ResponseStatus.Code)
}

// write says whether a request is a write, other than those of the election of a leader.
func (r request) write() bool {
	return !slices.Contains([]string{"get", "list", "watch"}, r.Verb) && r.ObjectRef.Namespace != "inference-cache-system"
}

func auditLog() string { return filepath.Join(env.Dir, "logs", "audit.log") }

// auditEnd is where the audit log ends now.
func auditEnd() (int64, error) {
	info, err := os.Stat(auditLog())
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// audited returns the controller's requests that were logged from an offset on.
func audited(offset int64) ([]request, error) {
	log, err := os.Open(auditLog())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if _, err := log.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	var requests []request
	reader := bufio.NewReader(log)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // A line without an end is still being written.
			return requests, nil
		}
		if err != nil {
			return nil, err
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("decoding the audit log: %w", err)
		}
		if r.User.Username == controllerUser {
			requests = append(requests, r)
		}
	}
}

// writes returns the controller's writes from an offset on.
func writes(offset int64) ([]request, error) {
	requests, err := audited(offset)
	return slices.DeleteFunc(requests, func(r request) bool { return !r.write() }), err
}

// denied returns an error if the manifests do not allow something that the controller has tried.
func denied() error {
	requests, err := audited(0)
	if err != nil {
		return err
	}
	if len(requests) == 0 {
		return errors.New("the audit log has no request of the controller")
	}
	for _, r := range requests {
		if r.Annotations["authorization.k8s.io/decision"] == "forbid" {
			err = errors.Join(err, fmt.Errorf("the controller may not %s", r))
		}
	}
	return err
}
