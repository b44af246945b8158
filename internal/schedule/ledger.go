package schedule

import "fmt"

const (
	// MaxLedger bounds the entries of one ledger, as the API does.
	MaxLedger = 1024
	// MaxLedgerBytes bounds what they take in the API, so that the whole policy stays under 256 KiB however long the names are.
	MaxLedgerBytes = 128 << 10
	// entryFrame is what an entry takes there beside its names: the names of its fields, its time and its verdict.
	entryFrame = 82
)

func (e Entry) bytes() int { return entryFrame + len(e.Node) + len(e.Job) + len(e.UID) }

// hasRoom reports whether the ledger can list another entry. One that is larger than it may become keeps what it has.
func (o *pool) hasRoom(e Entry) bool {
	return len(o.out.Ledger) < MaxLedger && o.bytes+e.bytes() <= MaxLedgerBytes
}

// measure counts the bytes of the ledgers.
func (p *pass) measure() {
	for _, o := range p.pools {
		for _, e := range o.out.Ledger {
			o.bytes += e.bytes()
		}
	}
}

func (p *pass) ledgerFull(c *candidate) (Reason, string) {
	if c.pool.hasRoom(c.job.entry()) {
		return "", ""
	}
	return BudgetExhausted, fmt.Sprintf("Policy %s has %d admitted nodes, the most that one policy can list; the job starts as soon as "+
		"one of them is done. To disturb more nodes at once, divide them among several policies.", c.pool.Name, len(c.pool.out.Ledger))
}
