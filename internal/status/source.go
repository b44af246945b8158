package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// SourceStage is how far the pipeline of a FirmwareSource came.
type SourceStage int

// The stages, in order.
const (
	// SourceFetching: a file is not in store yet, or not verified.
	SourceFetching SourceStage = iota
	// SourcePublishing: every file is fetched and verified.
	SourcePublishing
	// SourceDone: its images are served.
	SourceDone
)

// SourceFacts is what one pass over a FirmwareSource found out.
type SourceFacts struct {
	Name string
	// Reached is the stage that failed or is under way; all before it ended well.
	Reached SourceStage
	// Err is why it failed; nil while it is under way.
	Err error
	// Reason of the failure.
	Reason string
	// Transient is true when the operator tries again soon by itself.
	Transient bool
	// Files and Images in the source.
	Files, Images int
	// Verification is that of the spec; nil where it asks for no signatures.
	Verification *v1alpha1.SourceVerification
	// Quarantined says which of the images are not flashed on which models.
	Quarantined []string
	// InUseBy names what keeps a source that is being deleted; empty otherwise.
	InUseBy []string
	// InUse counts them; the list is bounded.
	InUse int
}

// SourceConditions are the condition types of a FirmwareSource.
var SourceConditions = []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionSignatureVerified}

// Source maps the facts of a FirmwareSource to its conditions.
func Source(old []metav1.Condition, generation int64, now time.Time, f SourceFacts) []metav1.Condition {
	want := []Condition{sourceReady(f)}
	if f.Reached != SourceDone {
		if f.Err == nil || f.Transient {
			want = append(want, Condition{v1alpha1.ConditionReconciling, metav1.ConditionTrue, reasonOr(f.Reason, v1alpha1.ReasonProgressing), sourceReady(f).Message})
		} else {
			want = append(want, Condition{v1alpha1.ConditionStalled, metav1.ConditionTrue, f.Reason, sourceReady(f).Message})
		}
	}
	if f.Verification != nil {
		want = append(want, sourceSigned(old, f))
	}
	return Merge(old, generation, now, SourceConditions, want...)
}

// unchanged is a condition as it was; one that was not there is not known.
func unchanged(old []metav1.Condition, kind string) Condition {
	if was := meta.FindStatusCondition(old, kind); was != nil {
		return Condition{kind, was.Status, was.Reason, was.Message}
	}
	return Condition{kind, metav1.ConditionUnknown, v1alpha1.ReasonPending, "The source was deleted before it was processed."}
}

// sourceSigned says whether the files are signed, as the spec asks for.
func sourceSigned(old []metav1.Condition, f SourceFacts) Condition {
	c := Condition{Type: v1alpha1.ConditionSignatureVerified, Status: metav1.ConditionFalse}
	switch {
	case f.InUse > 0:
		return unchanged(old, c.Type)
	case f.Reached > SourceFetching:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonSucceeded
		by := "a key"
		if f.Verification.TrustedRoot != "" {
			by = "an identity"
		}
		c.Message = fmt.Sprintf("Every file (%d) is signed by %s of spec.verification.", f.Files, by)
	case f.Err != nil && isSignature(f.Reason):
		c.Reason, c.Message = f.Reason, f.Err.Error()
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonPending, "Waiting for every file to be fetched."
	}
	return c
}

func isSignature(reason string) bool {
	switch reason {
	case v1alpha1.ReasonSignatureMissing, v1alpha1.ReasonSignatureInvalid, v1alpha1.ReasonSignatureUntrusted:
		return true
	}
	return false
}

// maxQuarantined bounds the quarantines that a message names.
const maxQuarantined = 3

func sourceReady(f SourceFacts) Condition {
	c := Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing}
	switch {
	case f.InUse > 0:
		c.Reason = v1alpha1.ReasonInUse
		c.Message = fmt.Sprintf("Deletion waits, cannot be taken back, and keeps new work from its images: %s to this source, among them %s. "+
			"Have them use another source, or delete them, and let the jobs end: kubectl get fwt,nfw,fwj",
			text.Quantity(f.InUse, "object refers", "objects refer"), strings.Join(f.InUseBy, ", "))
	case f.Reached == SourceDone:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonSucceeded
		c.Message = fmt.Sprintf("%s from %s, verified and in store.",
			text.Quantity(f.Images, "image", "images"), text.Quantity(f.Files, "file", "files"))
		if len(f.Quarantined) > 0 {
			c.Message += " Quarantined, and not flashed there: " + text.Some(f.Quarantined, maxQuarantined) + ". To look: kubectl get fwq"
		}
	case f.Err != nil && f.Transient:
		c.Reason, c.Message = f.Reason, sentence(f.Err.Error())+" It is tried again."
		if f.Reason == v1alpha1.ReasonDownloadFailed {
			c.Message += " To correct the source: " + wayout.Edit("fws", f.Name)
		}
	case f.Err != nil && isSignature(f.Reason):
		c.Reason, c.Message = f.Reason, sentence(f.Err.Error())+" Nothing new is accepted from this source until it is signed: a signature at the same "+
			"address is looked at every 10 minutes. To correct the source: "+wayout.Edit("fws", f.Name)
	case f.Err != nil:
		c.Reason, c.Message = f.Reason, sentence(f.Err.Error())+" Nothing new is accepted from this source until it is corrected: "+wayout.Edit("fws", f.Name)
	default:
		c.Message = fmt.Sprintf("Fetching and verifying %s.", text.Quantity(f.Files, "file", "files"))
	}
	return c
}

func reasonOr(reason, otherwise string) string {
	if reason == "" {
		return otherwise
	}
	return reason
}
