package main

import (
	"math"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

const (
	never    = math.MaxInt64
	atTheEnd = never - 1 // when an unknown outcome has had its effect; the table is read after it
	// A lock is released, and returned stock is on sale after its commit, within this time.
	releasedWithin = 1000000
	// Nobody releases the lock of a killed instance.
	lease = 6000000
)

// A commit is visible, and its stock on sale, within this time. It includes that of the slowest
// request, as a commit is visible before its answer.
var visibleWithin int64

// A step gives the states that may follow a state when the operation takes effect; none: its
// answer contradicts the state. States are text, so that they can be compared.
type step func(state string) []string

func operation(from, to int64, effect step) porcupine.Operation {
	return porcupine.Operation{Input: effect, Call: from, Return: to}
}

// isLinearizable tells whether each operation can take effect at a moment between its two times, so
// that every answer agrees with the state at that moment. An operation that ends before it begins
// has no such moment.
func isLinearizable(start string, operations []porcupine.Operation) bool {
	for _, each := range operations {
		if each.Call > each.Return {
			return false
		}
	}
	model := porcupine.NondeterministicModel{
		Init: func() []interface{} { return []interface{}{start} },
		Step: func(state, input, _ interface{}) []interface{} {
			var next []interface{}
			for _, each := range input.(step)(state.(string)) {
				next = append(next, each)
			}
			return next
		},
	}
	return porcupine.CheckOperations(model.ToModel(), operations)
}

// only is a step that changes nothing and requires a condition.
func only(condition func(state string) bool) step {
	return func(state string) []string {
		if condition(state) {
			return []string{state}
		}
		return nil
	}
}

func later(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

// -- the orders of a shopper for a voucher --
//
// A state is the phase of the sale ("u"pcoming, "o"pen or "e"nded) and a letter for each order:
// "-" not placed yet, "l"ive or "e"nded.

type ordersOfOne struct {
	voucher  *voucher
	orders   []*order
	requests []*request
}

// placeOf is the place of an order in a state; -1 if it has no row.
func (all *ordersOfOne) placeOf(id int64) int {
	for place, each := range all.orders {
		if each.id == id {
			return place + 1
		}
	}
	return -1
}

func (all *ordersOfOne) hasOrderOf(state, key string) bool {
	for place, each := range all.orders {
		if key != "-" && each.key == key && state[place+1] != '-' {
			return true
		}
	}
	return false
}

func (all *ordersOfOne) isFull(state string) bool {
	return int64(strings.Count(state[1:], "l")) >= all.voucher.limit
}

func with(state string, place int, letter string) string {
	return state[:place] + letter + state[place+1:]
}

// mayPlace: the sale is open, the limit not reached, and the key has no order.
func (all *ordersOfOne) mayPlace(state, key string, place int) bool {
	row := all.orders[place-1]
	return state[0] == 'o' && state[place] == '-' && row.key == key && row.created < all.voucher.end &&
		!all.isFull(state) && !all.hasOrderOf(state, key)
}

func (all *ordersOfOne) orderOperation(each *request) porcupine.Operation {
	place, key := all.placeOf(each.order), each.arg
	from, effect := each.sent, step(nil)
	switch each.outcome {
	case placed:
		if place > 0 {
			from = later(from, all.orders[place-1].created)
		}
		effect = func(state string) []string {
			if place < 0 || !all.mayPlace(state, key, place) {
				return nil
			}
			return []string{with(state, place, "l")}
		}
	case unknown:
		return operation(from, atTheEnd, func(state string) []string {
			next := []string{state}
			for place := range all.orders {
				if all.orders[place].created >= each.sent && all.mayPlace(state, key, place+1) {
					next = append(next, with(state, place+1, "l"))
				}
			}
			return next
		})
	case repeated:
		effect = only(func(state string) bool {
			return place > 0 && key != "-" && all.orders[place-1].key == key && state[place] != '-'
		})
	case alreadyOrdered:
		effect = only(func(state string) bool {
			return place > 0 && state[place] == 'l' && all.isFull(state) && !all.hasOrderOf(state, key)
		})
	default: // a refusal
		effect = only(func(state string) bool {
			return (each.outcome != notStarted || state[0] == 'u') &&
				(each.outcome != saleEnded || state[0] == 'e') &&
				(each.outcome == notDone || each.outcome == inProgress || !all.hasOrderOf(state, key))
		})
	}
	return operation(from, each.answered, effect)
}

func (all *ordersOfOne) cancelOperation(each *request) porcupine.Operation {
	place := all.placeOf(each.order)
	from, to := each.sent, each.answered
	cancel := func(state string) []string {
		if place < 0 || state[place] != 'l' {
			return nil
		}
		return []string{with(state, place, "e")}
	}
	switch each.outcome {
	case done:
		if place > 0 && all.orders[place-1].ended != never {
			from = later(from, all.orders[place-1].ended)
		}
		return operation(from, to, cancel)
	case wrongState:
		return operation(from, to, only(func(state string) bool { return place > 0 && state[place] == 'e' }))
	case unknown:
		return operation(from, atTheEnd, func(state string) []string { return append(cancel(state), state) })
	}
	return operation(from, to, only(func(string) bool { return each.outcome == notDone }))
}

func (all *ordersOfOne) isLinearizable() bool {
	phase := func(letter string) step {
		return func(state string) []string { return []string{with(state, 0, letter)} }
	}
	rows := ""
	for _, each := range all.orders {
		if each.ended == never {
			rows += "l"
		} else {
			rows += "e"
		}
	}
	operations := []porcupine.Operation{
		operation(all.voucher.begin, all.voucher.begin, phase("o")),
		operation(all.voucher.end, all.voucher.end, phase("e")),
		operation(never, never, only(func(state string) bool { return state[1:] == rows })),
	}
	for _, each := range all.requests {
		if each.kind == "order" {
			operations = append(operations, all.orderOperation(each))
		} else {
			operations = append(operations, all.cancelOperation(each))
		}
	}
	return isLinearizable("u"+strings.Repeat("-", len(rows)), operations)
}

// -- the lock of a shopper --
//
// A state is how many other requests may hold the lock.

func isLocked(inProgress *request, others []*request, hadFaults bool) bool {
	heldFor := int64(releasedWithin)
	if hadFaults {
		heldFor += lease
	}
	change := func(by int) step {
		return func(state string) []string {
			count, _ := strconv.Atoi(state)
			return []string{strconv.Itoa(count + by)}
		}
	}
	operations := []porcupine.Operation{operation(inProgress.sent, inProgress.answered,
		only(func(state string) bool { return state != "0" }))}
	for _, each := range others {
		isClear := each.outcome != unknown && each.outcome != notDone
		isOver := isClear && each.answered+heldFor < inProgress.sent
		if each.kind != "order" || each.outcome == inProgress.outcome || isOver || each.sent > inProgress.answered {
			continue
		}
		operations = append(operations, operation(each.sent, each.sent, change(1)))
		if isClear {
			operations = append(operations, operation(each.answered, each.answered+heldFor, change(-1)))
		}
	}
	return isLinearizable("0", operations)
}

// -- the stock of a voucher --
//
// A state is the number of events so far and the stock after them. The order of the commits is known.

func stockState(count, stock int64) string {
	return strconv.FormatInt(count, 10) + " " + strconv.FormatInt(stock, 10)
}

func (of *voucher) isStockLinearizable() bool {
	var operations []porcupine.Operation
	stock := int64(0)
	for i, each := range of.events {
		before := stockState(int64(i), stock)
		stock += each.change
		after, isEnough := stockState(int64(i)+1, stock), stock >= 0
		operations = append(operations, operation(each.at, later(each.at, of.events[len(of.events)-1].at), func(state string) []string {
			if state != before || !isEnough {
				return nil
			}
			return []string{after}
		}))
	}
	end := stockState(int64(len(of.events)), of.left)
	operations = append(operations, operation(never, never, only(func(state string) bool { return state == end })))
	return isLinearizable(stockState(0, 0), operations)
}

// A turn is an event after which there is no stock, or stock again.
type turn struct {
	at      int64
	isEmpty bool
}

func (of *voucher) turns() []turn {
	turns, stock := []turn{}, int64(0)
	for _, each := range of.events {
		stock += each.change
		if isEmpty := stock <= 0; len(turns) == 0 || isEmpty != turns[len(turns)-1].isEmpty {
			turns = append(turns, turn{each.at, isEmpty})
		}
	}
	return turns
}

// isSoldOut: a state is the number of turns so far. The others around the request may be left out.
func isSoldOut(each *request, turns []turn) bool {
	var operations []porcupine.Operation
	first := 0
	for i, turn := range turns {
		if turn.at > each.answered {
			break
		}
		if turn.at+visibleWithin < each.sent {
			first = i + 1
			operations = nil
			continue
		}
		before, after := strconv.Itoa(i), strconv.Itoa(i+1)
		operations = append(operations, operation(turn.at, turn.at+visibleWithin, func(state string) []string {
			if state != before {
				return nil
			}
			return []string{after}
		}))
	}
	operations = append(operations, operation(each.sent, each.answered, only(func(state string) bool {
		count, _ := strconv.Atoi(state)
		return count > 0 && turns[count-1].isEmpty
	})))
	return isLinearizable(strconv.Itoa(first), operations)
}

// -- the restocks of a voucher --
//
// A state is how often each number of pieces was added, as text in which each is a letter.

func (of *voucher) areRestocksLinearizable(requests []*request) bool {
	letters := map[string]int{}
	letterOf := func(pieces string) int {
		if _, ok := letters[pieces]; !ok {
			letters[pieces] = len(letters)
		}
		return letters[pieces]
	}
	rows := map[int]int{}
	for i, each := range of.events {
		if each.isStock && i > 0 { // the first is the creation
			rows[letterOf(strconv.FormatInt(each.change, 10))]++
		}
	}
	for _, each := range requests {
		letterOf(each.arg)
	}
	counted := func(counts map[int]int) string {
		text := make([]rune, len(letters))
		for i := range text {
			text[i] = rune('0' + counts[i])
		}
		return string(text)
	}
	var operations []porcupine.Operation
	for _, each := range requests {
		letter := letterOf(each.arg)
		add := func(state string) []string {
			text := []rune(state)
			text[letter]++
			return []string{string(text)}
		}
		switch each.outcome {
		case done:
			operations = append(operations, operation(each.sent, each.answered, add))
		case unknown:
			operations = append(operations, operation(each.sent, atTheEnd,
				func(state string) []string { return append(add(state), state) }))
		}
	}
	end := counted(rows)
	operations = append(operations, operation(never, never, only(func(state string) bool { return state == end })))
	return isLinearizable(counted(nil), operations)
}
