// judge - check a history of make prove for linearizability, with porcupine.
//
//	judge [--faults] TABLE HISTORY...
//
// It reads the same files as build/check, but shares no code with it. Each part is a history of its
// own: the orders of a shopper for a voucher, the lock of a shopper, the stock of a voucher, what
// "sold out" said about it, and its restocks. The rows of the table are an operation that reads
// everything at the end. Exit code: 0 every part is linearizable, 1 one is not, 2 a file cannot be
// read. --faults: a process was killed, so answers that do not state the outcome are allowed.
package main

import (
	"fmt"
	"os"
)

const shown = 3 // parts that are printed

var wrong, parts int

func judge(ok bool, format string, args ...interface{}) {
	parts++
	if ok {
		return
	}
	wrong++
	if wrong <= shown {
		fmt.Fprintf(os.Stderr, "  judge: "+format+"\n", args...)
	}
}

type pair struct{ voucher, shopper int64 }

func judgeOrders(in *input) {
	all := map[pair]*ordersOfOne{}
	of := func(voucher, shopper int64) *ordersOfOne {
		key := pair{voucher, shopper}
		if all[key] == nil {
			all[key] = &ordersOfOne{voucher: in.voucherOf(voucher)}
		}
		return all[key]
	}
	for _, each := range in.orders {
		mine := of(each.voucher, each.shopper)
		mine.orders = append(mine.orders, each)
	}
	for _, each := range in.requests {
		if each.kind != "restock" {
			mine := of(each.voucher, each.shopper)
			mine.requests = append(mine.requests, each)
		}
	}
	for key, each := range all {
		judge(each.isLinearizable(), "orders of shopper %d for voucher %d", key.shopper, key.voucher)
	}
}

func judgeLocks(in *input, hadFaults bool) {
	all := map[int64][]*request{}
	for _, each := range in.requests {
		all[each.shopper] = append(all[each.shopper], each)
	}
	for _, each := range in.requests {
		if each.outcome == inProgress {
			judge(isLocked(each, all[each.shopper], hadFaults), "lock of shopper %d at %d us", each.shopper, each.sent)
		}
	}
}

func judgeStock(in *input) {
	turns := map[int64][]turn{}
	restocks := map[int64][]*request{}
	for _, each := range in.requests {
		if each.kind == "restock" {
			restocks[each.voucher] = append(restocks[each.voucher], each)
		}
	}
	for id, of := range in.vouchers {
		turns[id] = of.turns()
		judge(of.isStockLinearizable(), "stock of voucher %d", id)
		judge(of.areRestocksLinearizable(restocks[id]), "restocks of voucher %d", id)
	}
	for _, each := range in.requests {
		if each.outcome == soldOut {
			judge(isSoldOut(each, turns[each.voucher]), "voucher %d was not sold out for shopper %d at %d us",
				each.voucher, each.shopper, each.sent)
		}
	}
}

func judgeAnswers(in *input, hadFaults bool) {
	judge(in.strays == 0, "%d answers without a request, or second answers", in.strays)
	for _, each := range in.requests {
		isClear := each.outcome != unknown && each.outcome != notDone
		judge(each.outcome != unexpected && (isClear || hadFaults), "answer to shopper %d at %d us", each.shopper, each.sent)
	}
}

func main() {
	args := os.Args[1:]
	hadFaults := len(args) > 0 && args[0] == "--faults"
	if hadFaults {
		args = args[1:]
	}
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: judge [--faults] TABLE HISTORY...")
		os.Exit(2)
	}
	in, err := read(args[0], args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(2)
	}
	visibleWithin = releasedWithin + in.slowest()
	judgeAnswers(in, hadFaults)
	judgeOrders(in)
	judgeLocks(in, hadFaults)
	judgeStock(in)
	fmt.Printf("%d requests in %d parts, %d not linearizable\n", len(in.requests), parts, wrong)
	if wrong > 0 {
		os.Exit(1)
	}
}
