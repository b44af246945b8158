package host

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

// piece is a block device of a random layout, as its maker knows it.
type piece struct {
	name, path, number, mapper string
	// parts are what it is made of, faulty those that an array has given up, and drive is set for a drive.
	parts, faulty []*piece
	drive         bool
	// array is set where it survives the loss of a part by the md driver, lvm for what LVM made, and short where a part of that is missing.
	array, lvm, short bool
}

func (p *piece) source() string {
	if p.mapper != "" {
		return "/dev/mapper/" + p.mapper
	}
	return "/dev/" + p.name
}

// group is a set of drives: those below its members.
type group struct {
	members []*piece
	array   inventory.Array
}

// layout is a random machine, and what is known of it because it was made so.
type layout struct {
	*rand.Rand
	sysfstest.Machine
	drives, free []*piece
	count        int
	groups       []group
	// mounted are the devices of the file systems, by mount point, the last one hiding the others; users are what else uses a device.
	mounted   map[string][]*piece
	users     []*piece
	mountinfo string
	swaps     string
	// links are what directories lead to, and keeps are what processes keep in directories of the host, by what it is called.
	links map[string]string
	keeps [][2]string
}

func newLayout(seed uint64) *layout {
	l := &layout{Rand: rand.New(rand.NewPCG(seed, 0x6c61796f7574)), Machine: sysfstest.Machine{MapFS: fstest.MapFS{}}, mounted: map[string][]*piece{}, links: map[string]string{}}
	for i := range 1 + l.IntN(4) {
		d := l.add(fmt.Sprintf("sd%c", 'a'+i), fmt.Sprintf("sys/devices/pci/%d/block", i))
		d.drive = true
		l.drives, l.free = append(l.drives, d), append(l.free, d)
	}
	makers := []func(){l.partition, l.partition, l.crypt, l.volume, l.raid, l.md, l.md, l.multipath}
	for range l.IntN(8) {
		makers[l.IntN(len(makers))]()
	}
	users := []func(){l.mount, l.mount, l.mount, l.btrfs, l.zfs, l.swap}
	for range l.IntN(6) {
		users[l.IntN(len(users))]()
	}
	for range l.IntN(4) {
		l.link()
	}
	for i := range l.IntN(3) {
		l.process(700 + i)
	}
	l.MapFS["proc/1/mountinfo"] = &fstest.MapFile{Data: []byte(l.mountinfo)}
	l.MapFS["proc/swaps"] = &fstest.MapFile{Data: []byte("Filename Type Size Used Priority\n" + l.swaps)}
	return l
}

func (l *layout) one(in int) bool { return l.IntN(in) == 0 }

// add makes a block device in a directory.
func (l *layout) add(name, dir string, parts ...*piece) *piece {
	l.count++
	p := &piece{name: name, path: path.Join(dir, name), number: fmt.Sprintf("%d:%d", 8+l.count, l.count), parts: parts}
	l.File(path.Join(p.path, "dev"), p.number)
	l.Link("sys/class/block/"+name, p.path)
	return p
}

// over makes a virtual block device over others.
func (l *layout) over(name string, parts ...*piece) *piece {
	p := l.add(name, "sys/devices/virtual/block", parts...)
	for _, part := range parts {
		l.Link(path.Join(p.path, "slaves", part.name), part.path)
	}
	return p
}

// mapped makes a device of the device mapper.
func (l *layout) mapped(name, uuid string, parts ...*piece) *piece {
	p := l.over(fmt.Sprintf("dm-%d", l.count), parts...)
	p.mapper, p.lvm = name, uuid[:3] == "LVM"
	l.Files(p.path, map[string]string{"dm/name": name, "dm/uuid": fmt.Sprint(uuid, l.count)})
	return p
}

// take takes up to n devices that nothing uses yet.
func (l *layout) take(n int) []*piece {
	l.Shuffle(len(l.free), func(i, j int) { l.free[i], l.free[j] = l.free[j], l.free[i] })
	n = min(n, len(l.free))
	taken := slices.Clone(l.free[:n])
	l.free = l.free[n:]
	return taken
}

func (l *layout) partition() {
	for _, on := range l.take(1) {
		if on.mapper != "" || path.Base(path.Dir(on.path)) != "block" { // the kernel partitions drives and arrays
			l.free = append(l.free, on)
			continue
		}
		for i := range 1 + l.IntN(2) {
			name := fmt.Sprintf("%sp%d", on.name, i+1)
			p := l.add(name, on.path, on)
			l.File(path.Join(p.path, "partition"), fmt.Sprint(i+1))
			l.free = append(l.free, p)
		}
	}
}

func (l *layout) crypt() {
	for _, on := range l.take(1) {
		l.free = append(l.free, l.mapped("crypt-"+on.name, "CRYPT-LUKS2-", on))
	}
}

func (l *layout) volume() {
	if on := l.take(1 + l.IntN(2)); len(on) > 0 {
		v := l.mapped(fmt.Sprintf("vg%d-lv", l.count), "LVM-", on...)
		v.short = slices.ContainsFunc(on, func(p *piece) bool { return p.lvm && p.short })
		l.free = append(l.free, v)
	}
}

func (l *layout) raid() {
	on, name := l.take(2), fmt.Sprintf("my--vg%d-data", l.count)
	if len(on) < 2 {
		l.free = append(l.free, on...)
		return
	}
	lacks := l.one(4)
	var legs []*piece
	for i, part := range on {
		if lacks && i == 1 {
			part = l.mapped(fmt.Sprintf("%s_rimage_1-missing_0_0", name), "LVM-")
			part.short = true
			l.free = append(l.free, on[1])
		}
		leg := l.mapped(fmt.Sprintf("%s_rimage_%d", name, i), "LVM-", part)
		leg.short = part.lvm && part.short
		legs = append(legs, leg)
	}
	v := l.mapped(name, "LVM-", legs...)
	v.short = legs[0].short || legs[1].short
	l.free = append(l.free, v)
	l.groups = append(l.groups, group{[]*piece{v}, inventory.Array{Name: "the LVM RAID of my-" + name[len("my--"):len(name)-len("-data")], Degraded: v.short}})
}

func (l *layout) md() {
	on := l.take(2 + l.IntN(2))
	if len(on) == 0 {
		return
	}
	a := l.over(fmt.Sprintf("md%d", l.count), on...)
	l.free = append(l.free, a)
	if l.one(4) {
		l.File(a.path+"/md/level", "raid0")
		return
	}
	a.array = true
	degraded, action := l.IntN(2), []string{"idle", "check", "recover", "resync"}[l.IntN(4)]
	g := group{array: inventory.Array{Name: a.name, Degraded: degraded > 0}}
	if action == "recover" || action == "resync" {
		g.array.Rebuilds = action
	}
	l.Files(a.path, map[string]string{"md/level": "raid1", "md/degraded": fmt.Sprint(degraded), "md/sync_action": action})
	for i, part := range on {
		state := "in_sync"
		if degraded > 0 && i == 0 && l.one(2) {
			state, a.faulty = "faulty", on[:1]
		} else {
			g.members = append(g.members, part)
		}
		l.File(a.path+"/md/dev-"+part.name+"/state", state)
	}
	l.groups = append(l.groups, g)
}

func (l *layout) multipath() {
	on := l.take(1 + l.IntN(2))
	if len(on) == 0 {
		return
	}
	m := l.mapped(fmt.Sprintf("mpath%d", l.count), "mpath-", on...)
	l.free = append(l.free, m)
	if len(on) > 1 {
		l.groups = append(l.groups, group{[]*piece{m}, inventory.Array{Name: "the multipath set " + m.mapper}})
	}
}

// elsewhere are directories that nothing uses unless it is told to.
var elsewhere = []string{"/srv", "/data", "/data/k8s", "/data/etcd/wal"}

// link puts a link in place of a directory of the system, which leads elsewhere, to another such directory, or to itself.
func (l *layout) link() {
	all := append(append([]string{"/var/lib", "/srv/x", "/data"}, elsewhere...), carried[3:]...)
	from, to := all[l.IntN(len(all))], all[l.IntN(len(all))]
	l.links[from] = to
	if l.one(2) {
		to = strings.Repeat("../", strings.Count(from, "/")-1) + to[1:]
	}
	l.MapFS[from[1:]] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
}

// process runs something that keeps files elsewhere: it was told so by a flag, or has one open there.
func (l *layout) process(pid int) {
	name, dir := keepers[l.IntN(len(keepers))], elsewhere[l.IntN(len(elsewhere))]+"/kept"
	proc := fmt.Sprintf("proc/%d", pid)
	l.Files(proc, map[string]string{"comm": name, "cmdline": name})
	l.MapFS[proc+"/mountinfo"] = &fstest.MapFile{Data: []byte(l.mountinfo)}
	if l.one(2) {
		flag := "--" + kept[l.IntN(len(kept))]
		l.File(proc+"/cmdline", strings.Join([]string{name, "--v=4", flag, dir}, "\x00"))
		l.keeps = append(l.keeps, [2]string{dir, dir})
		return
	}
	if at := l.follow(dir, 0); at != "" {
		l.MapFS[proc+"/fd/9"] = &fstest.MapFile{Data: []byte(at + "/db"), Mode: fs.ModeSymlink | 0o777}
		l.keeps = append(l.keeps, [2]string{"the files of " + name, dir})
	}
}

// follow is where a directory really is; empty where its links have no end. The shortest part of it that is a link is replaced first.
func (l *layout) follow(dir string, links int) string {
	if links > 40 {
		return ""
	}
	for i := range len(dir) {
		if to, ok := l.links[dir[:i+1]]; ok && (i+1 == len(dir) || dir[i+1] == '/') {
			return l.follow(to+dir[i+1:], links+1)
		}
	}
	return dir
}

// mountAt mounts a file system of the devices somewhere.
func (l *layout) mountAt(number, kind, source string, on ...*piece) {
	points := slices.Concat([]string{"/var/lib", "/var/lib/kubelet/pods/1"}, elsewhere, carried)
	point := points[l.IntN(len(points))]
	l.mounted[point] = on
	l.mountinfo += fmt.Sprintf("%d 1 %s / %s rw - %s %s rw\n", 20+l.count, number, point, kind, source)
}

func (l *layout) mount() {
	for _, p := range l.take(1) {
		l.mountAt(p.number, "ext4", p.source(), p)
		l.users = append(l.users, p)
	}
}

func (l *layout) btrfs() {
	on := l.take(1 + l.IntN(3))
	if len(on) == 0 {
		return
	}
	id := fmt.Sprintf("6f4c-%d", l.count)
	missing := l.IntN(2)
	for _, p := range on {
		l.File("sys/fs/btrfs/"+id+"/devices/"+p.name+"/dev", p.number)
	}
	l.File("sys/fs/btrfs/"+id+"/devinfo/1/missing", fmt.Sprint(missing))
	l.mountAt(fmt.Sprintf("0:%d", 30+l.count), "btrfs", on[0].source(), on...)
	l.users = append(l.users, on...)
	if len(on) > 1 {
		l.groups = append(l.groups, group{on, inventory.Array{Name: "the btrfs file system " + id, Degraded: missing > 0}})
	}
	l.count++
}

func (l *layout) zfs() {
	on := l.take(1 + l.IntN(3))
	if len(on) == 0 {
		return
	}
	pool, imported := fmt.Sprintf("tank%d", l.count), !l.one(4)
	for _, p := range on {
		l.File("run/udev/data/b"+p.number, "E:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL="+pool)
	}
	l.count++
	if !imported {
		return
	}
	state := []string{"ONLINE", "DEGRADED"}[l.IntN(2)]
	l.File("proc/spl/kstat/zfs/"+pool+"/state", state)
	l.mountAt(fmt.Sprintf("0:%d", 30+l.count), "zfs", pool+"/ROOT", on...)
	l.users = append(l.users, on...)
	l.groups = append(l.groups, group{on, inventory.Array{Name: "the ZFS pool " + pool, Degraded: state != "ONLINE"}})
}

func (l *layout) swap() {
	for _, p := range l.take(1) {
		l.swaps += "/dev/" + p.name + " partition 1 0 -2\n"
		l.users = append(l.users, p)
	}
}

// below adds the drives that a device is on; those behind an array that survives their loss only where they are asked for.
func below(p *piece, behind bool, found map[*piece]bool) {
	if p.drive {
		found[p] = true
	}
	if p.array && !behind {
		return
	}
	for _, part := range p.parts {
		if !slices.Contains(p.faulty, part) {
			below(part, behind, found)
		}
	}
}

func on(behind bool, pieces ...*piece) map[*piece]bool {
	found := map[*piece]bool{}
	for _, p := range pieces {
		below(p, behind, found)
	}
	return found
}

// carriedBy are the directories of the node that are on each drive.
func (l *layout) carriedBy() map[*piece][]string {
	out := map[*piece][]string{}
	all := l.keeps
	for _, dir := range carried {
		all = append(all, [2]string{dir, dir})
	}
	for _, keeps := range all {
		at := l.follow(keeps[1], 0)
		for l.mounted[at] == nil && at != "/" && at != "" {
			at = path.Dir(at)
		}
		for d := range on(true, l.mounted[at]...) {
			out[d] = append(out[d], keeps[0])
		}
	}
	return out
}

// What uses a drive, which sets it is in and what of the node it carries is what a walk down from file systems and sets finds, in any
// layout of partitions, mappings, arrays, pools and mounts.
func TestUseOfAnyLayoutIsWhatItsMakerKnows(t *testing.T) {
	carrying, members, users, kept := 0, 0, 0, 0
	for seed := range uint64(10_000) {
		l := newLayout(seed)
		s := stack{fsys: l.MapFS}
		require.NoError(t, s.read())
		used, carries := on(false, l.users...), l.carriedBy()
		for _, d := range l.drives {
			use, err := s.use(d.name)
			require.NoError(t, err)
			var want []inventory.Array
			for _, g := range l.groups {
				if on(false, g.members...)[d] {
					want = append(want, g.array)
				}
			}
			about := func() string {
				return fmt.Sprintf("seed %d, %s: %+v, %+v\n%s", seed, d.name, use, use.Arrays, l.tree())
			}
			if len(carries[d]) == 0 && use.Carries != "" || len(carries[d]) > 0 && !slices.Contains(carries[d], use.Carries) {
				require.Failf(t, "carries", "%v: %s", carries[d], about())
			}
			if !sameArrays(want, use.Arrays) {
				require.Failf(t, "sets", "%+v: %s", want, about())
			}
			if used[d] != (len(use.By) > 0) {
				require.Failf(t, "users", "%t: %s", used[d], about())
			}
			if use.Carries != "" && !slices.Contains(carried, use.Carries) {
				kept++
			}
			carrying, members, users = carrying+min(len(carries[d]), 1), members+min(len(want), 1), users+min(len(use.By), 1)
		}
	}
	require.Greater(t, kept, 300, "hardly anything is kept elsewhere")
	require.Greater(t, min(carrying, members, users), 2000, "the layouts are too plain to prove anything")
}

// tree describes the block devices.
func (l *layout) tree() string {
	s := stack{fsys: l.MapFS}
	_ = s.read()
	text := ""
	for _, b := range s.devices {
		text += fmt.Sprintf("%s %s%s of %v\n", b.Path, b.MapperName, b.MapperUUID, b.Slaves)
	}
	return text + l.mountinfo + fmt.Sprint(l.links, l.keeps)
}

func sameArrays(want, got []inventory.Array) bool {
	return len(want) == len(got) && !slices.ContainsFunc(want, func(a inventory.Array) bool { return !slices.Contains(got, a) })
}
