package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/certificate"
)

// CleanedReport is the outcome of a node that leaves service.
type CleanedReport struct {
	Node string `json:"node"`
	// Result is Clean or Failed.
	Result string `json:"result"`
	// Certificates are the names of those of its drives.
	Certificates []string `json:"certificates"`
	// DurationSeconds from the request to take it out of service until it was clean.
	DurationSeconds float64 `json:"durationSeconds"`
}

const actClean = "Clean"

// lastOwner is what the drives of the node hold before it is handed over.
const lastOwner = "the data of the last owner. "

// handOver takes the last node out of service by a policy that erases its NVMe drives, reads that they hold nothing of what they held, and verifies
// their certificates. In the end the node is in service again.
func (l *Lab) handOver(ctx context.Context, o DemoOptions) (*CleanedReport, error) {
	n := l.Nodes[len(l.Nodes)-1]
	r := &CleanedReport{Node: n.Name, Result: actFailed, Certificates: []string{}}
	spec, err := n.Machine.Spec()
	if err != nil {
		return r, err
	}
	var keys, serials []string
	for _, d := range spec.NVMe {
		keys, serials = append(keys, d.Key), append(serials, d.Serial)
		if err := n.store(d.Key, bytes.Repeat([]byte(lastOwner), 1<<20/len(lastOwner))); err != nil {
			return r, err
		}
	}
	policy, err := l.handoverPolicy(ctx, n.Name, serials)
	if err != nil {
		return r, err
	}
	if err := l.admin.Create(ctx, policy); client.IgnoreAlreadyExists(err) != nil {
		return r, fmt.Errorf("declare cleaning policy: %w", err)
	}
	l.say("\nTaking %s out of service for another owner. Its CleaningPolicy %s has the consent of %s to erase its %d NVMe drives.",
		n.Name, policy.Name, policy.Annotations[v1alpha1.ConsentedByAnnotation], len(keys))
	began := time.Now()
	if err := l.serve(ctx, n.Name, v1alpha1.NodeOutOfService); err != nil {
		return r, err
	}
	if err := l.untilClean(ctx, newView(o.Screen, began), n.Name, len(serials)); err != nil {
		return r, err
	}
	r.DurationSeconds = time.Since(began).Seconds()
	for _, key := range keys {
		if held, err := n.stores(key, lastOwner); err != nil || held {
			return r, errors.Join(err, fmt.Errorf("%s of %s is certified as erased, and holds data of the last owner: %t", key, n.Name, held))
		}
	}
	certified, err := l.certified(ctx, n.Name, began)
	if err != nil {
		return r, err
	}
	var drives []string
	for _, c := range certified {
		r.Certificates, drives = append(r.Certificates, c.Name), append(drives, c.Spec.Record.SerialNumber)
	}
	if slices.Sort(drives); !slices.Equal(drives, slices.Sorted(slices.Values(serials))) {
		return r, fmt.Errorf("the drives %v of %s are certified as erased instead of %v", drives, n.Name, serials)
	}
	r.Result = actClean
	l.say("%s is clean: none of its drives holds what it held, and each has a certificate. Returning it to service.", n.Name)
	return r, errors.Join(l.admin.Delete(ctx, policy), l.serve(ctx, n.Name, v1alpha1.NodeInService))
}

// handoverPolicy erases the drives of a node, with the consent of who administers the cluster.
func (l *Lab) handoverPolicy(ctx context.Context, node string, serials []string) (*v1alpha1.CleaningPolicy, error) {
	consents, err := l.consents(ctx)
	if err != nil {
		return nil, err
	}
	count := int32(len(serials)) //nolint:gosec // a handful
	drives := v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Vendor: v1alpha1.AnyVendor, SerialNumbers: serials}
	return &v1alpha1.CleaningPolicy{ObjectMeta: metav1.ObjectMeta{Name: "handover", Annotations: consents}, Spec: v1alpha1.CleaningPolicySpec{
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: node}},
		When:         []v1alpha1.CleaningTime{v1alpha1.CleaningOutOfService}, Consent: "handover",
		Steps: []v1alpha1.CleaningStep{{
			Name: "erase", Priority: new(int32(1)), Expect: []v1alpha1.ExpectedDevices{{Selector: drives, Count: &count}},
			Arguments: []v1alpha1.StepArgument{{Name: "method", Value: "Block"}},
		}},
	}}, nil
}

// consents are the annotations by which the administrator of the cluster consents to what erases drives.
func (l *Lab) consents(ctx context.Context) (map[string]string, error) {
	me := &authenticationv1.SelfSubjectReview{}
	if err := l.admin.Create(ctx, me); err != nil {
		return nil, fmt.Errorf("ask who administers the cluster: %w", err)
	}
	return map[string]string{v1alpha1.ConsentedByAnnotation: me.Status.UserInfo.Username}, nil
}

// serve says whether a node is in service.
func (l *Lab) serve(ctx context.Context, node string, service v1alpha1.NodeService) error {
	n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: node}}
	patch := fmt.Appendf(nil, `{"spec":{"service":%q}}`, service)
	if err := l.admin.Patch(ctx, n, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("set service of %s to %s: %w", node, service, err)
	}
	return nil
}

// untilClean follows the fleet until the node is clean and its drives are certified.
func (l *Lab) untilClean(ctx context.Context, v *view, node string, drives int) error {
	return follow(ctx, v, func(ctx context.Context) (sight, error) {
		p, err := l.picture(ctx, targets(), v.began)
		if err != nil {
			return sight{}, err
		}
		if p.failure != "" {
			v.show(p)
			return sight{}, verdictError(p.failure)
		}
		var n v1alpha1.NodeFirmware
		if err := l.admin.Get(ctx, client.ObjectKey{Name: node}, &n); err != nil {
			return sight{}, err
		}
		certified, err := l.certified(ctx, node, v.began)
		if err != nil {
			return sight{}, err
		}
		var missing []string
		if !meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionClean) {
			missing = append(missing, node+" to be clean")
		}
		if len(certified) < drives {
			missing = append(missing, fmt.Sprintf("certificates of %d drives", drives-len(certified)))
		}
		return sight{p, missing}, nil
	})
}

// certified are the certificates of the drives that a node erased since then. It fails where a signature is not valid.
func (l *Lab) certified(ctx context.Context, node string, since time.Time) ([]v1alpha1.SanitizationCertificate, error) {
	var all v1alpha1.SanitizationCertificateList
	if err := l.admin.List(ctx, &all); err != nil {
		return nil, err
	}
	of := slices.DeleteFunc(all.Items, func(c v1alpha1.SanitizationCertificate) bool {
		return c.Spec.Record.NodeName != node || c.Spec.Record.CompletionTime.Time.Before(since.Truncate(time.Second))
	})
	for i := range of {
		key, err := certificate.ReadPublicKey([]byte(of[i].Spec.PublicKey))
		if err == nil {
			err = key.Verify(&of[i])
		}
		if err != nil {
			return nil, verdictError(err.Error())
		}
	}
	return of, nil
}

// store writes data to the beginning of a drive.
func (n *Node) store(key string, data []byte) error {
	disk, err := os.OpenFile(n.Machine.Disk(key), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = disk.WriteAt(data, 0)
	return errors.Join(err, disk.Close())
}

// stores reports whether the beginning of what a drive stores has the text in it.
func (n *Node) stores(key, text string) (bool, error) {
	disk, err := os.Open(n.Machine.Disk(key))
	if err != nil {
		return false, err
	}
	defer disk.Close()
	is := make([]byte, 1<<20)
	if _, err := disk.ReadAt(is, 0); err != nil {
		return false, err
	}
	return bytes.Contains(is, []byte(text)), nil
}
