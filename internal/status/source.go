package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// SourceStage is a stage of the pipeline of a FirmwareSource, in order.
type SourceStage int

// The stages. SourceDone means that all of them ended well.
const (
	SourceStorage SourceStage = iota
	SourceDownload
	SourceVerify
	SourcePublish
	SourceDone
)

var sourceStages = [...]string{v1alpha1.ConditionStorageAvailable, v1alpha1.ConditionDownloaded, v1alpha1.ConditionVerified, v1alpha1.ConditionPublished}

// SourceFacts is what one pass over a FirmwareSource found out.
type SourceFacts struct {
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
	// Verification is that of the spec; empty where the spec has none.
	Verification v1alpha1.VerificationMode
	// InUseBy names what keeps a source that is being deleted; empty otherwise.
	InUseBy []string
	// InUse counts them; the list is bounded.
	InUse int
}

// SourceConditions are the condition types of a FirmwareSource except Quarantined.
var SourceConditions = []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled,
	v1alpha1.ConditionStorageAvailable, v1alpha1.ConditionDownloaded, v1alpha1.ConditionVerified, v1alpha1.ConditionPublished,
	v1alpha1.ConditionSignatureVerified}

// Source maps the facts of a FirmwareSource to its conditions.
func Source(old []metav1.Condition, generation int64, now time.Time, f SourceFacts) []metav1.Condition {
	want := []Condition{sourceReady(f), sourceSigned(old, f)}
	if f.Reached != SourceDone {
		if f.Err == nil || f.Transient {
			want = append(want, Condition{v1alpha1.ConditionReconciling, metav1.ConditionTrue, reasonOr(f.Reason, v1alpha1.ReasonProgressing), sourceReady(f).Message})
		} else {
			want = append(want, Condition{v1alpha1.ConditionStalled, metav1.ConditionTrue, f.Reason, sourceReady(f).Message})
		}
	}
	for i, stage := range sourceStages {
		c := Condition{Type: stage, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded}
		switch {
		case f.InUse > 0: // a source that is being deleted is not looked at
			c = unchanged(old, stage)
		case SourceStage(i) > f.Reached:
			c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonPending, "Waits for the stages before it."
		case SourceStage(i) == f.Reached && f.Err != nil:
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, f.Reason, f.Err.Error()
		case SourceStage(i) == f.Reached:
			c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonProgressing
		}
		want = append(want, c)
	}
	return Merge(old, generation, now, SourceConditions, want...)
}

// unchanged is a condition as it was; one that was not there is not known.
func unchanged(old []metav1.Condition, kind string) Condition {
	if was := meta.FindStatusCondition(old, kind); was != nil {
		return Condition{kind, was.Status, was.Reason, was.Message}
	}
	return Condition{kind, metav1.ConditionUnknown, v1alpha1.ReasonPending, "The source was deleted before it was looked at."}
}

// sourceSigned says whether the files are signed. It is no stage: a source that asks for no signature has passed them all.
func sourceSigned(old []metav1.Condition, f SourceFacts) Condition {
	c := Condition{Type: v1alpha1.ConditionSignatureVerified, Status: metav1.ConditionFalse}
	switch {
	case f.InUse > 0:
		return unchanged(old, c.Type)
	case f.Verification == "":
		c.Reason = v1alpha1.ReasonVerificationNotChosen
		c.Message = "Nobody needs to have signed the files. Set spec.verification to keys, or to Unsigned if that is meant."
	case f.Verification == v1alpha1.VerificationUnsigned:
		c.Reason = v1alpha1.ReasonUnsigned
		c.Message = "Nobody needs to have signed the files, as spec.verification says. Nodes that require signatures refuse the images."
	case f.Reached > SourceVerify:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonSucceeded
		by := "a key"
		if f.Verification == v1alpha1.VerificationSigstore {
			by = "an identity"
		}
		c.Message = fmt.Sprintf("Every file (%d) is signed by %s of spec.verification.", f.Files, by)
	case f.Err != nil && isSignature(f.Reason):
		c.Reason, c.Message = f.Reason, f.Err.Error()
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonPending, "Waits until every file is fetched."
	}
	return c
}

func isSignature(reason string) bool {
	switch reason {
	case v1alpha1.ReasonSignatureMissing, v1alpha1.ReasonSignatureInvalid, v1alpha1.ReasonSignatureKeyUnknown, v1alpha1.ReasonSignatureExpired:
		return true
	}
	return false
}

func sourceReady(f SourceFacts) Condition {
	c := Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing}
	switch {
	case f.InUse > 0:
		c.Reason = v1alpha1.ReasonInUse
		c.Message = fmt.Sprintf("Deletion waits: %s to this source, among them %s. Change or delete them.",
			quantity(f.InUse, "object refers", "objects refer"), strings.Join(f.InUseBy, ", "))
	case f.Reached == SourceDone:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonSucceeded
		c.Message = fmt.Sprintf("%s from %s, verified and in store.",
			quantity(f.Images, "image", "images"), quantity(f.Files, "file", "files"))
	case f.Err != nil && f.Transient:
		c.Reason, c.Message = f.Reason, sentence(f.Err.Error())+" It is tried again."
	case f.Err != nil:
		c.Reason, c.Message = f.Reason, sentence(f.Err.Error())+" Nothing new is taken from this source until it is corrected."
	default:
		c.Message = fmt.Sprintf("Fetching and verifying %s.", quantity(f.Files, "file", "files"))
	}
	return c
}

func reasonOr(reason, otherwise string) string {
	if reason == "" {
		return otherwise
	}
	return reason
}
