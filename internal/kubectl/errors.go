package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
)

// explain says what is wrong and what to do next, of an error that the API server or the way to it caused.
func (s *session) explain(err error) string {
	var unreachable *url.Error
	switch {
	case apierrors.IsBadRequest(err) && (strings.Contains(err.Error(), "unknown field") || strings.Contains(err.Error(), "field label not supported")), (meta.IsNoMatchError(err) || reading.IsMissingKind(err)) && s.isInstalled():
		return fmt.Sprintf("the operator in %s does not know what this asks for: %v. It is older than this command: take the command of its version (kubectl firmware version)", s.cluster(), err)
	case meta.IsNoMatchError(err), reading.IsMissingKind(err):
		return fmt.Sprintf("node-firmware-operator is not installed in %s: %v. Choose another cluster with --context, or install it: docs/install.md",
			s.cluster(), err)
	case apierrors.IsForbidden(err):
		return forbidden(err)
	case apierrors.IsResourceExpired(err):
		return fmt.Sprintf("the list changed for longer than %s remembers while it was read: %v. Try again; --node, --class or a name make it shorter", s.cluster(), err)
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("%s does not accept who you are: %v. Log in again, or name another user with --user", s.cluster(), err)
	case errors.As(err, &unreachable) || errors.Is(err, context.DeadlineExceeded) || s.config != nil && errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Sprintf("%s does not answer: %v. Try again, or compare with: kubectl cluster-info", s.cluster(), err)
	}
	return err.Error()
}

// isInstalled reports whether the API server serves the kind that every version of the product has.
func (s *session) isInstalled() bool {
	if s.api == nil {
		return false
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	return s.api.List(ctx, &v1alpha1.NodeFirmwareList{}, client.Limit(1)) == nil
}

// isUnread reports whether an error says that something could not be read, so that nothing is known of it. Others are refusals.
func isUnread(err error) bool {
	var status apierrors.APIStatus
	var unreachable *url.Error
	return errors.As(err, &status) || meta.IsNoMatchError(err) || errors.As(err, &unreachable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF)
}

// cluster names the API server as a person knows it.
func (s *session) cluster() string {
	server := "the cluster"
	if s.config != nil {
		server = "the cluster at " + s.config.Host
	}
	if at := s.context(); at != "" {
		server += fmt.Sprintf(" (context %s)", at)
	}
	return server
}

// context is the name of the context that is used; empty where there is none.
func (s *session) context() string {
	raw, err := s.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return cmp.Or(*s.flags.Context, raw.CurrentContext)
}

// refusal is what the authorizer of the API server says.
var refusal = regexp.MustCompile(`User "([^"]+)" cannot (\w+) resource "([a-z]+)[^"]*" in API group "([^"]*)"`)

// forbidden names the right that is missing, and the role that has it.
func forbidden(err error) string {
	said := refusal.FindStringSubmatch(err.Error())
	if said == nil { // another authorizer, in words of its own
		return err.Error()
	}
	user, verb, resource, group := said[1], said[2], said[3], said[4]
	out := fmt.Sprintf("user %s may not %s %s", user, verb, resource)
	if resource == "nodes" && group == "" {
		return fmt.Sprintf("%s. No role of the product has that right; who administers the cluster gives it with: kubectl create clusterrole node-reader --verb=get,list,watch --resource=nodes; "+
			"kubectl create clusterrolebinding node-reader-%s --clusterrole=node-reader --user=%q", out, strings.NewReplacer(":", "-", "@", "-").Replace(user), user)
	}
	role, failed := roleWith(verb, group, resource)
	if failed != nil || role == "" {
		return out + ". Ask who administers the cluster for that right"
	}
	return fmt.Sprintf("%s. The ClusterRole %s has that right. Who administers the cluster gives it with: kubectl create clusterrolebinding %[2]s-%[3]s --clusterrole=%[2]s --user=%[4]q",
		out, role, strings.NewReplacer(":", "-", "@", "-").Replace(user), user)
}

// forPeople are the roles that a person may have.
var forPeople = regexp.MustCompile(`^node-firmware-([a-z]+-editor|viewer|admin)$`)

// roleWith is the narrowest role for people in deploy/ that has a right, which is the first; empty where none has it.
func roleWith(verb, group, resource string) (string, error) {
	objects, err := deploy.Objects(deploy.RBAC)
	if err != nil {
		return "", err
	}
	for _, o := range objects {
		if o.GetKind() != "ClusterRole" || !forPeople.MatchString(o.GetName()) {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			return "", err
		}
		if slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Verbs, verb) && slices.Contains(r.APIGroups, group) &&
				(slices.Contains(r.Resources, resource) || slices.Contains(r.Resources, rbacv1.ResourceAll))
		}) {
			return role.Name, nil
		}
	}
	return "", nil
}

// noSuch says that there is no object of that name, and which one may be meant. Resource is what kubectl calls them.
func noSuch(what, resource, name string, known []string) error {
	near, best := "", len(name)/3+2
	for _, k := range known {
		if d := levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(k)); d < best {
			near, best = k, d
		}
	}
	if near != "" {
		return fmt.Errorf("there is no %s %q; do you mean %s?", what, name, near)
	}
	return fmt.Errorf("there is no %s %q. To list what there is: kubectl get %s", what, name, resource)
}
