package kubectl

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// writer is the field manager of what the command writes, and the name under which it leaves events.
const writer = "kubectl-firmware"

// Bounds of the API: the bytes of a request, of the note of an event, and of the name of who reports it.
const (
	maxRequest  = 128
	maxNote     = 1024
	maxInstance = 128
)

// write is one change of one object, which a person is asked about.
type write struct {
	// old is the object as it was read, nil where it is to be created; changed is the object as it is to be.
	old, changed client.Object
	// will says what happens, in sentences, and did what happened, in a clause that follows the name of the object.
	will, did string
	// action, and reason of the API, are those of the event.
	action, reason string
	// again changes the object once more after it was written, where what is to be has to differ from what is; nil for most.
	again func(client.Object)
	// manager is the field manager; empty for that of the command.
	manager string
}

// changes reports whether the write changes that object.
func (w *write) changes(o client.Object) bool {
	return w.old != nil && named(w.old) == named(o)
}

// decision reads what a write depends on and decides it; nil for none. It is made again where an object has changed before the write.
type decision func(ctx context.Context) (*write, error)

// person is who writes, why and when.
type person struct {
	name, why string
	now       time.Time
}

// request is the text of a request: a new one, because of the time.
func (p person) request() string {
	return text.Clip(p.now.UTC().Format(time.RFC3339)+" "+p.says(), maxRequest)
}

// says is who it is, and why.
func (p person) says() string {
	if p.why == "" {
		return p.name
	}
	return p.name + ": " + p.why
}

// writing are the flags of a verb that writes.
type writing struct {
	yes         bool
	dryRun, why string
	out         *output
	// others says of an object that nothing is done to it, where the verb is about all there is; empty where objects are named.
	others string
	// unread counts what could not be listed.
	unread int
}

func writingOf(c *cobra.Command) *writing {
	w := &writing{}
	c.Flags().BoolVarP(&w.yes, "yes", "y", false, "do not ask")
	c.Flags().StringVarP(&w.why, "reason", "m", "", "why; others find it in the object and in an event")
	c.Flags().StringVar(&w.dryRun, "dry-run", "none", "server: have the API server check what would be written, and write nothing")
	_ = c.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]string{"none", "server"}, cobra.ShellCompDirectiveNoFileComp))
	w.out = outputOf(c, true)
	c.Flags().Lookup("output").Usage = "how to print what was written: json, yaml, name, jsonpath=…, go-template=… (default: a line for each object)"
	return w
}

func (w *writing) isDryRun() bool { return w.dryRun == "server" }

func (w *writing) check() error {
	if w.dryRun != "none" && w.dryRun != "server" {
		return fmt.Errorf("--dry-run=%s: want none or server; what would be written is decided from what is in the cluster", w.dryRun)
	}
	_, err := w.out.printer()
	return err
}

// person finds out who writes. Where the API server does not say, the event names nobody.
func (s *session) person(ctx context.Context, why string) (person, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := s.api.Create(ctx, review); err != nil && !apierrors.IsForbidden(err) && !meta.IsNoMatchError(err) {
		return person{}, err
	}
	return person{cmp.Or(review.Status.UserInfo.Username, "a person"), strings.Join(strings.Fields(why), " "), s.now()}, nil
}

// do makes the decisions, asks once, and writes. What is refused, or could not be read, ends it before anything is written, but where the verb is
// about all there is: then the others go on. A write that fails does not keep the others from being tried.
func (s *session) do(ctx context.Context, w *writing, by person, decisions []decision) error {
	var writes []*write
	unread := w.unread
	for _, decide := range decisions {
		one, err := decide(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && w.others == "":
			return err
		case err != nil:
			s.say("%s: %s", w.others, s.explain(err))
			if isUnread(err) {
				unread++
			}
		}
		if one != nil && one.old != nil && slices.ContainsFunc(writes, func(o *write) bool { return o != nil && o.changes(one.old) }) {
			one = nil // it was named twice, or by a job of it
		}
		writes = append(writes, one)
	}
	failed, tried, err := []error{}, 0, error(nil)
	if slices.ContainsFunc(writes, func(one *write) bool { return one != nil }) {
		err = s.agree(ctx, w, writes)
	} else if unread == 0 {
		s.say("Nothing is to be done.")
	}
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // what was agreed to is done to its end, also where nobody reads on
	defer signal.Reset(syscall.SIGPIPE)
	var unprinted error
	for i, one := range writes {
		if one == nil {
			continue
		}
		tried++
		done, err := s.write(ctx, w, one, decisions[i])
		if err == nil && done != nil {
			unprinted = cmp.Or(s.written(ctx, w, done, by), unprinted)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	switch {
	case len(failed) == 0 && unprinted != nil:
		return fmt.Errorf("print what was written: %w", unprinted)
	case len(failed) == 0 && unread > 0:
		return fmt.Errorf("what was not read is as it was: %s", text.Quantity(unread, "read failed", "reads failed"))
	case tried == 1 && unread == 0 || len(failed) == 0:
		return errors.Join(failed...)
	}
	for _, err := range failed { // each may want something else
		s.say("Not written: %s", s.explain(err))
	}
	return fmt.Errorf("%d of %d were not written", len(failed), tried)
}

// agree asks the person. What will happen is said in any case.
func (s *session) agree(ctx context.Context, w *writing, writes []*write) error {
	for _, one := range writes {
		if one != nil {
			s.say("%s", one.will)
		}
	}
	if w.yes || w.isDryRun() {
		return nil
	}
	if !isTerminal(s.In) {
		return errors.New("nothing was done, because nobody can be asked here. Add --yes to have it done, or --dry-run=server to have it checked only")
	}
	fmt.Fprint(s.ErrOut, "Do it? [y/N] ")
	answer, err := readLine(ctx, s.In)
	switch answer = strings.ToLower(strings.TrimSpace(answer)); {
	case err != nil:
		s.say("")
		return err
	case answer == "y" || answer == "yes":
		return nil
	}
	return errors.New("nothing was done")
}

// readLine reads a line, until an interrupt: the read itself cannot be ended, and ends with the program.
func readLine(ctx context.Context, in io.Reader) (string, error) {
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(in).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		return text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// isTerminal reports whether a person is at the other end.
func isTerminal(stream any) bool {
	f, is := stream.(*os.File)
	return is && term.IsTerminal(int(f.Fd()))
}

// attempts bounds how often a write is decided anew because its object has changed.
const attempts = 5

// write writes, if the object is as it was when the person agreed, or if what is to happen is the same now. It returns what was written.
func (s *session) write(ctx context.Context, w *writing, one *write, decide decision) (*write, error) {
	for range attempts {
		err := s.send(ctx, w, one)
		if !apierrors.IsConflict(err) {
			return one, err
		}
		again, err := decide(ctx)
		if err != nil || again == nil {
			return nil, err
		}
		if again.will != one.will {
			return nil, fmt.Errorf("%s has changed meanwhile, and nothing was written to it. What would happen now: %s To have that, type the command again", named(one.old), again.will)
		}
		one = again
	}
	return nil, fmt.Errorf("%s keeps changing, and nothing was written to it. Try again", named(one.old))
}

func (s *session) send(ctx context.Context, w *writing, one *write) error {
	owner := client.FieldOwner(cmp.Or(one.manager, writer))
	if one.old == nil {
		options := []client.CreateOption{owner}
		if w.isDryRun() {
			options = append(options, client.DryRunAll)
		}
		return s.api.Create(ctx, one.changed, options...)
	}
	options := []client.PatchOption{owner}
	if w.isDryRun() {
		options = append(options, client.DryRunAll)
	}
	if err := s.api.Patch(ctx, one.changed, client.MergeFromWithOptions(one.old, client.MergeFromWithOptimisticLock{}), options...); err != nil || one.again == nil {
		return err
	}
	first := copyOf(one.changed)
	one.again(one.changed)
	return s.api.Patch(ctx, one.changed, client.MergeFrom(first), options...)
}

// written leaves an event, and prints what was written.
func (s *session) written(ctx context.Context, w *writing, one *write, by person) error {
	suffix := " (server dry run)"
	if !w.isDryRun() {
		suffix = ""
		if err := s.leaveEvent(ctx, one, by); err != nil {
			s.say("No event says who did it: %s", s.explain(err))
		}
	}
	p, err := w.out.printer()
	if err != nil {
		return err
	}
	if p == nil {
		return page{Writer: printable{s.Out}}.line("%s: %s%s", named(one.changed), one.did, suffix)
	}
	one.changed.SetManagedFields(nil)
	gvk, err := s.api.GroupVersionKindFor(one.changed)
	if err != nil {
		return err
	}
	one.changed.GetObjectKind().SetGroupVersionKind(gvk)
	return p.PrintObj(one.changed, s.Out)
}

// leaveEvent has the object say who did what to it, and why. Events of what has no namespace are in the namespace default.
func (s *session) leaveEvent(ctx context.Context, one *write, by person) error {
	gvk, err := s.api.GroupVersionKindFor(one.changed)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("By %s. %s", by.says(), one.will)
	return s.api.Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "kubectl-firmware-"},
		Regarding: corev1.ObjectReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: one.changed.GetName(), UID: one.changed.GetUID(), ResourceVersion: one.changed.GetResourceVersion(),
		},
		EventTime: metav1.NewMicroTime(by.now), Type: corev1.EventTypeNormal, Reason: one.reason, Action: one.action, Note: text.Clip(note, maxNote),
		ReportingController: writer, ReportingInstance: text.Clip(by.name, maxInstance),
	})
}

// named is an object as a person names it to this command.
func named(o client.Object) string {
	kind, _ := explain.Described(o)
	return kind + "/" + o.GetName()
}

// copyOf is a deep copy of an object, to be changed.
func copyOf[O client.Object](o O) O { return o.DeepCopyObject().(O) }

// wantOne, wantOrAll and wantSome say what a verb wants where its arguments are not that.
func wantOne(example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return errors.New("name one object, such as: " + example)
		}
		return nil
	}
}

// wantOrAll wants names, or the flag that says all.
func wantOrAll(everything *bool, what, example, flag string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if (len(args) == 0) != *everything {
			return fmt.Errorf("name %s, such as: %s; or say --%s", what, example, flag)
		}
		return nil
	}
}

func wantSome(example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return errors.New("name an object, such as: " + example)
		}
		return nil
	}
}

// object finds the object of a kind that a person names, with or without the kind before a slash.
func object[O client.Object](ctx context.Context, api client.Reader, kind, name string) (out O, err error) {
	if !strings.Contains(name, "/") {
		name = kind + "/" + name
	}
	found, err := lookUp(ctx, api, name)
	if err != nil {
		return out, err
	}
	out, is := found.(O)
	if !is {
		return out, fmt.Errorf("%s is no %s", named(found), kind)
	}
	return out, nil
}

// isPending reports whether a request was made that is not answered yet.
func isPending(wanted, answered string) bool { return wanted != "" && wanted != answered }

// silent says of a node whose daemon does not report that a request waits for it; empty for others.
func silent(n *v1alpha1.NodeFirmware) string {
	if c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionDaemonReady); c != nil && c.Status == metav1.ConditionFalse {
		return " Its daemon does not report, so nothing happens before it does."
	}
	return ""
}

// begin checks the flags of a verb that writes, connects, and finds out who writes.
func (s *session) begin(ctx context.Context, w *writing) (client.Client, person, error) {
	if err := w.check(); err != nil {
		return nil, person{}, err
	}
	api, err := s.connect()
	if err != nil {
		return nil, person{}, err
	}
	by, err := s.person(ctx, w.why)
	return api, by, err
}

// decisionsOf is the decision of each name.
func decisionsOf(names []string, decide func(context.Context, string) (*write, error)) (out []decision) {
	for _, name := range names {
		out = append(out, func(ctx context.Context) (*write, error) { return decide(ctx, name) })
	}
	return out
}
