package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/certificate"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
)

// certificates are listed with what the drives are, or printed whole.
type certificates struct {
	v1alpha1.SanitizationCertificateList
	// whole prints all that they say. invalid are those whose signature is not valid, by name, with the reason; signer is the key that was asked for.
	whole   bool
	invalid map[string]error
	signer  string
}

func (s *session) certificatesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "certificates [NAME...]",
		Short: "Print the certificates of drives that were erased, and verify their signatures",
		Long: "List the certificates of drives that were erased, the newest first, or print those that are named as a whole. Their signatures are verified: " +
			"by the key that a certificate itself has, which shows that nobody changed it since, or with --key by one that you have from elsewhere, " +
			"which shows that it is of that installation. The command fails where one is not valid.",
		Example: "  kubectl firmware certificates\n" +
			"  kubectl firmware certificates --serial-number S64HNE0T000042 --key installation.pem\n" +
			"  kubectl firmware certificates storage-004-erase-3f1c9a7be25d0846",
		ValidArgsFunction: s.completeNames("SanitizationCertificate"),
	}
	out := outputOf(c, true)
	node := c.Flags().String("node", "", "only those of drives that were in this node")
	serial := c.Flags().String("serial-number", "", "only those of the drive with this serial number")
	keyFile := c.Flags().String("key", "", "public key in PEM that the signatures have to be valid for")
	c.RunE = func(c *cobra.Command, args []string) error {
		key, err := readPublicKey(*keyFile)
		if err != nil {
			return err
		}
		api, err := s.connect()
		if err != nil {
			return err
		}
		found, err := certificatesOf(c.Context(), api, args, func(r v1alpha1.SanitizationRecord) bool {
			return (*node == "" || r.NodeName == *node) && (*serial == "" || r.SerialNumber == *serial)
		})
		if err != nil {
			return err
		}
		found.verify(key)
		if len(found.Items) == 0 {
			s.say("No certificate matches.")
		}
		if p, err := out.printer(); err != nil {
			return err
		} else if p != nil {
			err = printObjects(p, *out.flags.OutputFormat, runtime.Object(&found.SanitizationCertificateList), s.Out)
			return cmp.Or(err, found.err())
		}
		return cmp.Or(found.text(out.page(s.Out)), found.err())
	}
	return c
}

func readPublicKey(file string) (*certificate.PublicKey, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // each certificate has its own
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read --key: %w", err)
	}
	key, err := certificate.ReadPublicKey(text)
	if err != nil {
		return nil, fmt.Errorf("read --key %s: %w", file, err)
	}
	return &key, nil
}

// certificatesOf are those that are named, or all that pass.
func certificatesOf(ctx context.Context, api client.Reader, names []string, pass func(v1alpha1.SanitizationRecord) bool) (*certificates, error) {
	out := &certificates{whole: len(names) > 0}
	out.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SanitizationCertificateList"}
	out.Items = []v1alpha1.SanitizationCertificate{}
	keep := func(o *v1alpha1.SanitizationCertificate) error {
		o.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SanitizationCertificate"}
		o.ManagedFields = nil
		if pass(o.Spec.Record) {
			out.Items = append(out.Items, *o)
		}
		return nil
	}
	for _, name := range names {
		name = name[strings.LastIndex(name, "/")+1:] // -o name prints sanitizationcertificate.nodefirmware.io/NAME
		var o v1alpha1.SanitizationCertificate
		switch err := api.Get(ctx, client.ObjectKey{Name: name}, &o); {
		case apierrors.IsNotFound(err) && !reading.IsMissingKind(err):
			return nil, fmt.Errorf("there is no certificate %q. To list them: kubectl firmware certificates", name)
		case err != nil:
			return nil, err
		}
		_ = keep(&o)
	}
	if len(names) > 0 {
		return out, nil
	}
	err := reading.Each(ctx, api, &v1alpha1.SanitizationCertificateList{}, nil, keep)
	slices.SortStableFunc(out.Items, func(a, b v1alpha1.SanitizationCertificate) int {
		return b.Spec.Record.CompletionTime.Compare(a.Spec.Record.CompletionTime.Time)
	})
	return out, err
}

// verify checks all signatures, by the key, or where there is none by that of each certificate.
func (l *certificates) verify(key *certificate.PublicKey) {
	l.invalid = map[string]error{}
	if key != nil {
		l.signer = key.Fingerprint()
	}
	for i := range l.Items {
		c := &l.Items[i]
		own, err := certificate.ReadPublicKey([]byte(c.Spec.PublicKey))
		if key != nil {
			own, err = *key, nil
		}
		if err == nil {
			err = own.Verify(c)
		} else {
			err = fmt.Errorf("the public key of certificate %s cannot be read: %w", c.Name, err)
		}
		if err != nil {
			l.invalid[c.Name] = err
		}
	}
}

// err says which certificates are not to be believed.
func (l *certificates) err() error {
	var errs []error
	for _, c := range l.Items {
		errs = append(errs, l.invalid[c.Name])
	}
	return errors.Join(errs...)
}

func (l *certificates) text(p page) error {
	if l.whole {
		for i := range l.Items {
			if err := l.print(p, &l.Items[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if len(l.Items) == 0 {
		return nil
	}
	var rows [][]string
	for _, c := range l.Items {
		r := c.Spec.Record
		valid := "unchanged"
		switch {
		case l.invalid[c.Name] != nil:
			valid = "INVALID"
		case l.signer != "":
			valid = "valid"
		}
		rows = append(rows, []string{c.Name, r.SerialNumber, r.Model, r.NodeName, string(r.Term), stamp(&r.CompletionTime), r.ConsentedBy, valid})
	}
	return p.table([]string{"CERTIFICATE", "SERIAL NUMBER", "MODEL", "NODE", "TERM", "COMPLETED", "CONSENTED BY", "SIGNATURE"}, rows, 2, 6)
}

// print prints one certificate, for a file or a printer.
func (l *certificates) print(p page, c *v1alpha1.SanitizationCertificate) error {
	r := c.Spec.Record
	samples := fmt.Sprintf("%d blocks of 4096 bytes, seed %s; %d held data before, none is as it was", r.Samples, r.Seed, r.HeldData)
	if r.HeldData == 0 {
		samples = fmt.Sprintf("%d blocks of 4096 bytes, seed %s; none held data before, so that the drive's log alone says it", r.Samples, r.Seed)
	}
	by := "FirmwareJob " + r.Job + " (" + r.JobUID + ")"
	if r.CleaningPolicy != "" {
		by += " of CleaningPolicy " + r.CleaningPolicy
	}
	signature := "unchanged since it was signed; whose key that is, --key FILE tells"
	key := l.signer
	if own, err := certificate.ReadPublicKey([]byte(c.Spec.PublicKey)); err == nil && key == "" {
		key = own.Fingerprint()
	}
	switch {
	case l.invalid[c.Name] != nil:
		signature = "NOT VALID"
	case l.signer != "":
		signature = "valid"
	}
	if err := p.line("Certificate of sanitization %s\n", c.Name); err != nil {
		return err
	}
	for _, row := range [][2]string{
		{"Serial number", r.SerialNumber}, {"Vendor", r.Vendor}, {"Model", r.Model}, {"Size", strconv.FormatInt(r.SizeBytes, 10) + " bytes"},
		{"Sanitization", string(r.Term) + " (NIST SP 800-88)"}, {"Method", r.Method}, {"Drive's log", r.Log}, {"Verification", samples},
		{"Began", r.StartTime.UTC().Format(time.RFC3339)}, {"Completed", r.CompletionTime.UTC().Format(time.RFC3339)}, {"Node", r.NodeName}, {"Device", r.Device},
		{"Asked for by", by}, {"Consented by", cmp.Or(r.ConsentedBy, "not recorded")}, {"Tool", "node-firmware-operator " + r.Version},
		{"What remains", r.Remains}, {"Signature", signature}, {"Key (SHA-256)", key},
	} {
		if err := p.line("%-15s %s", row[0], row[1]); err != nil {
			return err
		}
	}
	return p.line("")
}
