package main

import (
	"bufio"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
)

// An outcome is what an answer says about its request.
type outcome int

const (
	unknown outcome = iota // it may have had an effect
	notDone                // it had none
	placed
	repeated
	done
	soldOut
	alreadyOrdered
	inProgress
	notStarted
	saleEnded
	wrongState
	unexpected
)

var outcomes = map[string]outcome{
	"sold_out": soldOut, "already_ordered": alreadyOrdered, "order_in_progress": inProgress,
	"not_started": notStarted, "sale_ended": saleEnded, "wrong_state": wrongState,
	"unavailable": notDone, "overloaded": notDone, "internal": notDone,
}

// A request and its answer. Times are in us.
type request struct {
	kind             string // order, cancel or restock
	shopper, voucher int64
	arg              string // the key, the order to cancel, or the number of pieces
	sent, answered   int64  // answered is never if there was no answer
	outcome          outcome
	order            int64 // in the answer; cancel: in the request
}

// An order is a row of the table.
type order struct {
	id, voucher, shopper, created int64
	key                           string // "-": none
	ended                         int64  // never: it is live
}

// An event changes the stock of a voucher. The ids rise in the order of the commits.
type event struct {
	id, at, change int64
	isStock        bool // the admin changed the stock
}

type voucher struct {
	id, begin, end, limit, left int64
	events                      []event
}

type input struct {
	requests []*request
	orders   map[int64]*order
	vouchers map[int64]*voucher
	ends     map[int64]int64 // by order: when it ended
	strays   int             // answers without a request, and second answers
}

// The key that the service itself gives an order that it places without a lock is longer.
const clientKeyMax = 64

func eachLine(path string, use func(fields []string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		if err := use(strings.Fields(lines.Text())); err != nil {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	return lines.Err()
}

// numbers parses all of the fields; "-" is 0.
func numbers(fields []string) ([]int64, error) {
	parsed := make([]int64, len(fields))
	for i, field := range fields {
		if field == "-" {
			continue
		}
		number, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return nil, err
		}
		parsed[i] = number
	}
	return parsed, nil
}

func (in *input) voucherOf(id int64) *voucher {
	if in.vouchers[id] == nil {
		in.vouchers[id] = &voucher{id: id}
	}
	return in.vouchers[id]
}

func (in *input) addTableLine(fields []string) error {
	key := "-"
	what, rest := fields[0], fields[1:]
	if what == "order" && len(rest) == 5 {
		key, rest = rest[4], rest[:4]
	}
	n, err := numbers(rest)
	if err != nil {
		return err
	}
	of := in.voucherOf(n[0])
	switch what {
	case "voucher":
		of.begin, of.end, of.limit, of.left = n[1], n[2], n[3], n[4]
	case "order":
		if len(key) > clientKeyMax {
			key = "-"
		}
		in.orders[n[1]] = &order{id: n[1], voucher: n[0], shopper: n[2], created: n[3], key: key, ended: never}
		of.events = append(of.events, event{id: n[1], at: n[3], change: -1})
	case "end":
		in.ends[n[3]] = n[2]
		of.events = append(of.events, event{id: n[1], at: n[2], change: 1})
	case "stock":
		of.events = append(of.events, event{id: n[1], at: n[2], change: n[3], isStock: true})
	default:
		return fmt.Errorf("unknown kind of line: %s", what)
	}
	return nil
}

func outcomeOf(kind string, status int64, code string) outcome {
	switch {
	case kind == "order" && status == 201:
		return placed
	case kind == "order" && status == 200:
		return repeated
	case status == 200:
		return done
	}
	if known, ok := outcomes[code]; ok {
		return known
	}
	if status >= 500 {
		return unknown
	}
	return unexpected
}

func (in *input) readHistory(path string) error {
	sent := map[string]*request{}
	return eachLine(path, func(fields []string) error {
		if fields[0] == ">" {
			n, err := numbers([]string{fields[2], fields[4], fields[5]})
			if err != nil {
				return err
			}
			each := &request{kind: fields[3], shopper: n[1], voucher: n[2], arg: fields[6], sent: n[0], answered: never}
			if each.kind == "cancel" {
				each.order, err = strconv.ParseInt(each.arg, 10, 64)
			}
			sent[fields[1]] = each
			in.requests = append(in.requests, each)
			return err
		}
		n, err := numbers([]string{fields[2], fields[3], fields[5]})
		each := sent[fields[1]]
		if each == nil || each.answered != never {
			in.strays++
			return err
		}
		each.answered, each.outcome = n[0], outcomeOf(each.kind, n[1], fields[4])
		if each.kind == "order" {
			each.order = n[2]
		}
		return err
	})
}

// slowest is the time of the slowest request that was answered.
func (in *input) slowest() int64 {
	longest := int64(0)
	for _, each := range in.requests {
		if each.answered != never {
			longest = later(longest, each.answered-each.sent)
		}
	}
	return longest
}

func read(table string, histories []string) (*input, error) {
	in := &input{orders: map[int64]*order{}, vouchers: map[int64]*voucher{}, ends: map[int64]int64{}}
	if err := eachLine(table, in.addTableLine); err != nil {
		return nil, err
	}
	for id, at := range in.ends {
		if in.orders[id] == nil {
			return nil, fmt.Errorf("%s: order %d has ended but has no row", table, id)
		}
		in.orders[id].ended = at
	}
	for _, of := range in.vouchers {
		events := of.events
		sort.Slice(events, func(i, k int) bool { return events[i].id < events[k].id })
	}
	for _, history := range histories {
		if err := in.readHistory(history); err != nil {
			return nil, err
		}
	}
	return in, nil
}
