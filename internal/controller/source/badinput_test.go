package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Whatever comes from outside: it ends in its reason, at its stage, and nothing of it is stored.
func TestBadInputEndsInItsReasonAndNothingOfItIsStored(t *testing.T) { // R001-14, R001-16
	const content = "FIRMWARE"
	over := func(answer http.HandlerFunc) func(*bench) v1alpha1.FirmwareFile {
		return func(b *bench) v1alpha1.FirmwareFile {
			server := httptest.NewServer(answer)
			b.t.Cleanup(server.Close)
			return remote(server.URL+"/fw.bin", content)
		}
	}
	at := func(url string) func(*bench) v1alpha1.FirmwareFile {
		return func(*bench) v1alpha1.FirmwareFile { return remote(url, content) }
	}
	archive := func(content string) func(*bench) v1alpha1.FirmwareFile {
		return func(b *bench) v1alpha1.FirmwareFile {
			f := b.file("archive", content)
			f.Images[0].Path = "fw.bin"
			return f
		}
	}
	image := func(content []byte, change func(*v1alpha1.ImageDescription)) func(*bench) v1alpha1.FirmwareFile {
		return func(b *bench) v1alpha1.FirmwareFile {
			f := b.file("image", string(content))
			change(&f.Images[0])
			return f
		}
	}
	keep := func(*v1alpha1.ImageDescription) {}
	link := func(kind byte) tar.Header { return tar.Header{Name: "other", Typeflag: kind, Linkname: "/etc/shadow"} }
	zeros := strings.Repeat("\x00", 64<<20)
	cabinet := read(t, "../../../pkg/imageinfo/testdata/fwupd.cab")
	adapter := read(t, "../../../pkg/imageinfo/testdata/fs3.bin")

	resolve(t, "internal.test", "127.0.0.3")
	limits := map[string]func(*artifact.FetchConfig){
		"a server that stops talking":   func(c *artifact.FetchConfig) { c.StallTimeout = 50 * time.Millisecond },
		"a byte now and then":           func(c *artifact.FetchConfig) { c.Timeout = 300 * time.Millisecond },
		"a name of an internal address": func(c *artifact.FetchConfig) { c.Refused = []netip.Prefix{netip.MustParsePrefix("127.0.0.3/32")} },
		"a zip of a million names":      func(c *artifact.FetchConfig) { c.MaxBytes = 64 << 20 },
	}
	for name, tc := range map[string]struct {
		file    func(*bench) v1alpha1.FirmwareFile
		reason  string
		message string
	}{
		"404":             {over(func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) }), "DownloadFailed", "404"},
		"500":             {over(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }), "DownloadFailed", "500"},
		"a redirect loop": {over(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }), "DownloadFailed", "redirects"},
		"an error page":   {over(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>sorry</html>") }), "DigestMismatch", "sha256"},
		"a server that stops talking": {over(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, content[:3])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}), "DownloadFailed", ""},
		"a byte now and then": {over(func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				fmt.Fprint(w, "x")
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(time.Millisecond):
				}
			}
		}), "DownloadFailed", ""},
		"an endless body": {over(func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 4096))
			}
		}), "DownloadFailed", "limit"},
		"a body shorter than it says": {over(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "800")
			fmt.Fprint(w, content)
		}), "DownloadFailed", "interrupted"},
		"a body longer than it says": {over(func(w http.ResponseWriter, _ *http.Request) {
			conn, out, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprintf(out, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n%s", content)
				_ = out.Flush()
				_ = conn.Close()
			}
		}), "DigestMismatch", "sha256"},
		"instance metadata":          {at("http://169.254.169.254/latest"), "DownloadFailed", "refused"},
		"instance metadata by NAT64": {at("http://[64:ff9b::a9fe:a9fe]/latest"), "DownloadFailed", "refused"},
		"a redirect to instance metadata": {over(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}), "DownloadFailed", "refused"},
		"a private address":             {at("http://10.0.0.1/fw.bin"), "DownloadFailed", "--allow-source-networks"},
		"a name of an internal address": {at("http://internal.test/fw.bin"), "DownloadFailed", "--refuse-source-networks"},

		"a zip that climbs":             {archive(zipped(t, "fw.bin", content, "../other", "x")), "UnpackFailed", "escapes the archive"},
		"a zip with an absolute name":   {archive(zipped(t, "fw.bin", content, "/other", "x")), "UnpackFailed", "absolute"},
		"a zip with a name of no UTF-8": {archive(zipped(t, "fw.bin", content, "other\xff", "x")), "UnpackFailed", "not UTF-8"},
		"a zip that explodes":           {archive(zipped(t, "fw.bin", zeros)), "UnpackFailed", "size limit"},
		"a zip of a million names":      {archive(directoryOnly(1_000_000)), "UnpackFailed", "the directory of the archive"},
		"a tar that climbs":             {archive(tarred(t, content, tar.Header{Name: "../other"})), "UnpackFailed", "escapes the archive"},
		"a symbolic link":               {archive(tarred(t, content, link(tar.TypeSymlink))), "UnpackFailed", "link to"},
		"a hard link":                   {archive(tarred(t, content, link(tar.TypeLink))), "UnpackFailed", "link to"},
		"a device file":                 {archive(tarred(t, content, link(tar.TypeChar))), "UnpackFailed", "neither a file"},
		"an archive in an archive":      {archive(zipped(t, "fw.bin", zipped(t, "fw.bin", content))), "UnpackFailed", "itself an archive"},
		"an archive that is cut off":    {archive(tarred(t, content)[:60]), "UnpackFailed", ""},

		"a cabinet with a foreign GUID": {image(cabinet, func(i *v1alpha1.ImageDescription) {
			i.Class, i.Version, i.BoardIDs = v1alpha1.ClassBIOS, "2.19.1", []string{"00000000-0000-0000-0000-000000000000"}
		}), "ImageMismatch", "says that it is for"},
		"an image for another board":     {image(adapter, func(i *v1alpha1.ImageDescription) { i.BoardIDs = []string{"MT_0000000359"} }), "ImageMismatch", "MT_0000000436"},
		"an image of another version":    {image(adapter, func(i *v1alpha1.ImageDescription) { i.Version = "22.39.1002" }), "ImageMismatch", "22.41.1000"},
		"an image with a flipped bit":    {image(flipped(adapter, 0x1424), keep), "ImageMismatch", "checksum"},
		"an image for nobody knows whom": {image([]byte(content), func(i *v1alpha1.ImageDescription) { i.BoardIDs = nil }), "BoardsUnknown", "name boardIDs or models"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.limits = limits[name]
			b.start()
			b.create("src", tc.file(b))
			for range 2 { // the next look finds nothing of the first one, either
				_, _ = b.reconcile("src")
				assert.Equal(t, "False "+tc.reason, b.reason("src", "Ready"))
				assert.Contains(t, b.message("src", "Ready"), tc.message)
				assert.Empty(t, b.get("src").Status.Images)
				assert.Empty(t, b.kept())
			}
		})
	}
}

// A rollout is under way when the source is edited to what cannot be had: what its jobs flash stays.
func TestAnEditInTheMiddleOfARolloutTakesNothingFromIt(t *testing.T) {
	b := newBench(t)
	first := b.file("fw.bin", "FIRMWARE")
	b.create("src", first)
	_, err := b.reconcile("src")
	require.NoError(t, err)
	require.NoError(t, b.client.Create(t.Context(), &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "rollout"}, Spec: v1alpha1.FirmwareJobSpec{
		Task: v1alpha1.JobTask{Devices: []v1alpha1.TaskDevice{{Digest: first.Digest}}},
	}}))

	b.edit("src", func(s *v1alpha1.FirmwareSource) {
		s.Spec.Files = []v1alpha1.FirmwareFile{remote("file://"+filepath.Join(b.files, "gone.bin"), "OTHER")}
		s.Spec.Files[0].Images[0].Version = "22.42.1000"
	})
	_, err = b.reconcile("src")
	require.Error(t, err, "it is tried again")
	assert.Equal(t, "False DownloadFailed", b.reason("src", "Ready"))
	b.requireStatus("src", status.InProgressStatus)
	for range 3 {
		b.now = b.now.Add(2 * time.Hour)
		require.NoError(t, b.reconciler.collect(t.Context()))
	}
	running, err := inventory.ParseDigest(string(first.Digest))
	require.NoError(t, err)
	f, err := b.store.Open(running)
	require.NoError(t, err, "an unfinished job flashes it")
	require.NoError(t, f.Close())
}

func read(t *testing.T, path string) []byte {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

func flipped(content []byte, at int) []byte {
	out := bytes.Clone(content)
	out[at] ^= 1
	return out
}

// tarred is a compressed tar archive with fw.bin, and another member after it.
func tarred(t *testing.T, content string, others ...tar.Header) string {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "fw.bin", Size: int64(len(content)), Mode: 0o600}))
	_, err := w.Write([]byte(content))
	require.NoError(t, err)
	for _, h := range others {
		require.NoError(t, w.WriteHeader(&h))
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return out.String()
}

// directoryOnly is a zip archive of nothing but its directory (APPNOTE.TXT 4.3.12, 4.3.16), which says that it has fewer names.
func directoryOnly(names int) string {
	header := make([]byte, 47)
	copy(header, "PK\x01\x02")
	header[28], header[46] = 1, 'a'
	end := append([]byte("PK\x05\x06"), make([]byte, 18)...)
	binary.LittleEndian.PutUint16(end[8:], uint16(names%65536))
	binary.LittleEndian.PutUint16(end[10:], uint16(names%65536))
	binary.LittleEndian.PutUint32(end[12:], uint32(names*len(header)))
	first := "PK\x03\x04"
	binary.LittleEndian.PutUint32(end[16:], uint32(len(first)))
	return first + string(append(bytes.Repeat(header, names), end...))
}

// A disk that is not there ends in its reason, and is looked for again.
func TestAStoreWithoutADiskSaysSo(t *testing.T) { // R001-14
	b := newBench(t)
	b.create("src", b.file("fw.bin", "FIRMWARE"))
	blobs := filepath.Dir(b.store.Path(inventory.Digest{}))
	require.NoError(t, os.Rename(blobs, blobs+".away"))
	b.requireNotStored()
	require.NoError(t, os.Rename(blobs+".away", blobs))
	_, err := b.reconcile("src")
	require.NoError(t, err)
	b.requireStatus("src", status.CurrentStatus)
}

// A disk that is full ends in its reason, leaves nothing behind, and is tried again until there is room.
func TestAFullDiskSaysSo(t *testing.T) { // R001-14
	const alone = "FULL_DISK_IN_THIS_PROCESS"
	if os.Getenv(alone) == "" { // the limit is that of a process, and go test writes too
		test := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		test.Env = append(os.Environ(), alone+"=1")
		out, err := test.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return
	}
	b := newBench(t)
	b.create("src", b.file("fw.bin", strings.Repeat("FIRMWARE", 8<<10)))
	signal.Ignore(unix.SIGXFSZ) // so that the write fails instead
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	full := before
	full.Cur = 4096
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &full))
	b.requireNotStored()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &before))
	_, err := b.reconcile("src")
	require.NoError(t, err)
	b.requireStatus("src", status.CurrentStatus)
}

// requireNotStored has a source end because of the disk.
func (b *bench) requireNotStored() {
	b.t.Helper()
	_, err := b.reconcile("src")
	require.Error(b.t, err, "it is tried again")
	require.Equal(b.t, "False StorageFailed", b.reason("src", "Ready"))
	b.requireStatus("src", status.InProgressStatus)
	require.Empty(b.t, b.kept())
}
