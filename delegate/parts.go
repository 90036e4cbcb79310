package delegate

import (
	"context"
	"time"
)

// ample is what a call may take beyond its equal part of the time, where there is time: a DEL of 0.4 s is not slow, and
// of 50 stale records that share 15 s each has 0.3.
const ample = 5 * time.Second

// parts is the time of several calls, one after the other.
type parts struct {
	least time.Duration // what each has in any case: half of its equal part
}

// split divides what ctx leaves among n calls.
func split(ctx context.Context, n int) parts {
	end, ok := ctx.Deadline()
	if !ok || n <= 0 {
		return parts{}
	}
	return parts{time.Until(end) / time.Duration(2*n)}
}

// part gives one of the calls that are left its time: an equal part, or up to ample where as much as least stays for
// each of the others, so that one that hangs does not keep them from their work.
func (p parts) part(ctx context.Context, left int) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	rest := time.Until(end)
	return context.WithTimeout(ctx, max(rest/time.Duration(left), min(ample, rest-p.least*time.Duration(left-1))))
}
