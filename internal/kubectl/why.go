package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
)

// explanation is printed as it is, or as text.
type explanation struct{ *explain.Explanation }

func (e explanation) text(p page) error {
	if err := p.line("%s: %s (%s)", e.Of, e.Sentence, cmp.Or(e.Reason, "Unknown")); err != nil {
		return err
	}
	var rows [][]string
	for _, l := range e.Chain {
		rows = append(rows, []string{l.Of, l.Reason, l.Says})
	}
	if err := section(p, []string{"WHAT LED THERE", "REASON", "SAYS"}, rows, 0, 2); err != nil {
		return err
	}
	if len(e.Next) == 0 {
		return p.line("\nNothing has to be typed.")
	}
	for _, w := range e.Next {
		if err := p.line("\n%s:\n  %s", cmp.Or(w.Purpose, "To change it"), w.Typed()); err != nil {
			return err
		}
	}
	return nil
}

// kinds that may be asked about, by the words before a slash. Those with a bare name are looked for in this order.
var askable = []struct {
	words []string
	kind  string
	empty func() client.Object
	bare  bool
}{
	{[]string{"node", "nodefirmware", "nfw"}, "NodeFirmware", func() client.Object { return &v1alpha1.NodeFirmware{} }, true},
	{[]string{"device", "nodedevice", "ndev"}, "NodeDevice", func() client.Object { return &v1alpha1.NodeDevice{} }, true},
	{[]string{"job", "firmwarejob", "fwj"}, "FirmwareJob", func() client.Object { return &v1alpha1.FirmwareJob{} }, true},
	{[]string{"policy", "rolloutpolicy", "rp"}, "RolloutPolicy", func() client.Object { return &v1alpha1.RolloutPolicy{} }, false},
	{[]string{"template", "firmwaretemplate", "fwt"}, "FirmwareTemplate", func() client.Object { return &v1alpha1.FirmwareTemplate{} }, false},
	{[]string{"settings", "configurationtemplate", "fct"}, "ConfigurationTemplate", func() client.Object { return &v1alpha1.ConfigurationTemplate{} }, false},
	{[]string{"source", "firmwaresource", "fws"}, "FirmwareSource", func() client.Object { return &v1alpha1.FirmwareSource{} }, false},
	{[]string{"quarantine", "firmwarequarantine", "fwq"}, "FirmwareQuarantine", func() client.Object { return &v1alpha1.FirmwareQuarantine{} }, false},
	{[]string{"catalog", "firmwarecatalog", "fwc"}, "FirmwareCatalog", func() client.Object { return &v1alpha1.FirmwareCatalog{} }, false},
}

func (s *session) whyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "why NODE|DEVICE|JOB|KIND/NAME",
		Short: "Say why a node, a device or a job is as it is, what led there, and what to type next",
		Example: "  kubectl firmware why gpu-017\n" +
			"  kubectl firmware why policy/gpu",
		Args:              wantOne("kubectl firmware why gpu-017"),
		ValidArgsFunction: s.completeNames("NodeFirmware", "FirmwareJob", "NodeDevice"),
	}
	out := outputOf(c, false)
	c.RunE = func(c *cobra.Command, args []string) error {
		api, err := s.connect()
		if err != nil {
			return err
		}
		o, err := lookUp(c.Context(), api, args[0])
		if err != nil {
			return err
		}
		g := &explain.Gathering{Ctx: c.Context(), API: api}
		e := g.Explain(o)
		if g.Err != nil {
			return g.Err
		}
		e.TypeMeta = metav1.TypeMeta{APIVersion: resultVersion, Kind: "Explanation"}
		return out.print(s.Out, explanation{e})
	}
	return c
}

// lookUp finds the object that a person means by a name, or by kind/name.
func lookUp(ctx context.Context, api client.Reader, named string) (client.Object, error) {
	word, name, slash := strings.Cut(named, "/")
	word, _, _ = strings.Cut(strings.ToLower(word), ".") // -o name prints nodedevice.nodefirmware.io/NAME
	if !slash {
		name = named
	}
	var tried, kinds, short []string
	var unread error
	for _, k := range askable {
		if slash && !slices.Contains(k.words, word) || !slash && !k.bare {
			continue
		}
		o := k.empty()
		err := api.Get(ctx, client.ObjectKey{Name: name}, o)
		if err == nil {
			return o, nil
		}
		switch {
		case apierrors.IsForbidden(err) && !slash: // it may be of another kind, which may be read
			unread = cmp.Or(unread, err)
		case !apierrors.IsNotFound(err) || reading.IsMissingKind(err):
			return nil, err
		}
		tried, kinds, short = append(tried, k.words[0]), append(kinds, k.kind), append(short, k.words[2])
	}
	if tried == nil {
		return nil, fmt.Errorf("%q: there is no kind %q; name a node, device, job, policy, template, source, quarantine or catalog", named, word)
	}
	if unread != nil {
		return nil, unread
	}
	var known []string
	for _, kind := range kinds {
		names, err := namesOf(ctx, api, kind)
		if err != nil && !apierrors.IsForbidden(err) { // who may not list them is told without the nearest name
			return nil, err
		}
		known = append(known, names...)
	}
	return nil, noSuch(strings.Join(tried, " or "), strings.Join(short, ","), name, known)
}

// is reports whether the condition of that type is True.
func is(all []metav1.Condition, kind string) bool { return meta.IsStatusConditionTrue(all, kind) }
