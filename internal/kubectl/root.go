package kubectl

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/sourcefile"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// patience is how long the API server has to answer one request, where --request-timeout says nothing.
const patience = 30 * time.Second

// Run runs the command with the arguments. It returns the exit code: 0, or 1 where something went wrong, which is said on the error stream, 2
// where a comparison found a difference or a person has to fill in what was printed, and 130 where the person interrupted it.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	s := newSession(streams)
	c := s.root()
	c.SetArgs(args)
	c.SetIn(s.In)
	c.SetOut(s.Out)
	c.SetErr(s.ErrOut)
	err := c.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		return 130
	case errors.Is(err, errDiffers):
		return 2
	}
	s.say("Error: %s", s.explain(err))
	if errors.Is(err, sourcefile.ErrFillIn) {
		return 2
	}
	return 1
}

// Command is the command with its verbs, for what describes it, such as its man pages.
func Command() *cobra.Command {
	return newSession(genericiooptions.NewTestIOStreamsDiscard()).root()
}

func newSession(streams genericiooptions.IOStreams) *session {
	return &session{IOStreams: streams, flags: genericclioptions.NewConfigFlags(true), now: time.Now, random: rand.Reader}
}

// session is one call of the command.
type session struct {
	genericiooptions.IOStreams
	flags  *genericclioptions.ConfigFlags
	config *rest.Config
	api    client.Client
	now    func() time.Time
	random io.Reader
	// logs of pods; nil for those of the cluster.
	logs podLogs
}

func (s *session) root() *cobra.Command {
	c := &cobra.Command{
		Use:   "kubectl-firmware",
		Short: "See the firmware of the nodes of a cluster, and act on it",
		Long: "See the firmware of the nodes of a cluster, and act on it.\n\n" +
			"What is asked for is printed to standard output, and what there is to say about it to standard error. What writes says first what will happen, and asks.",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl firmware"},
		Version:       version.Current(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	s.flags.AddFlags(c.PersistentFlags())
	_ = c.PersistentFlags().MarkHidden("namespace") // every kind is cluster-scoped
	c.AddCommand(s.statusCommand(), s.getCommand(), s.whyCommand(), s.versionCommand(),
		s.retryCommand(), s.releaseCommand(), s.outOfServiceCommand(), s.inServiceCommand(), s.scanCommand(), s.pauseCommand(), s.resumeCommand(), s.stopCommand(), s.cancelCommand(), s.quarantineCommand(), s.certificatesCommand(), s.waitCommand(), s.pinCommand(), s.unpinCommand(),
		s.rollbackCommand(), s.restoreCommand(), s.backupCommand(), s.historyCommand(), s.diffCommand(), s.planCommand(), s.simulateCommand(), s.exposureCommand(), s.reportCommand(), s.bundleCommand(), s.uiCommand(), sourcefile.Command())
	return c
}

// scheme knows the kinds that the command reads.
func scheme() (*runtime.Scheme, error) {
	out := runtime.NewScheme()
	return out, errors.Join(clientgoscheme.AddToScheme(out), v1alpha1.AddToScheme(out))
}

// connect makes the client of the session. It asks nothing of the API server.
func (s *session) connect() (client.Client, error) {
	if s.api != nil {
		return s.api, nil
	}
	config, err := s.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server has its own limits
	config.UserAgent = "kubectl-firmware/" + version.Current()
	config.WarningHandler = rest.NewWarningWriter(s.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	if config.Timeout == 0 {
		config.Timeout = patience
	}
	kinds, err := scheme()
	if err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	api, err := client.New(config, client.Options{Scheme: kinds})
	if err != nil {
		return nil, err
	}
	// A field that the definitions there do not have would be left out of what is written, and the command would say that it was.
	strict := client.WithFieldValidation(api, metav1.FieldValidationStrict)
	if api, err = newDeviceReader(strict, config); err != nil {
		return nil, err
	}
	s.config, s.api = config, api
	return s.api, nil
}

// width of the terminal that is written to, in characters; 0 where there is none.
func width(w io.Writer) int {
	f, is := w.(*os.File)
	if !is {
		return 0
	}
	out, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return out
}

// say writes words for the person.
func (s *session) say(format string, args ...any) {
	fmt.Fprintln(s.ErrOut, text.Printable(fmt.Sprintf(format, args...)))
}
