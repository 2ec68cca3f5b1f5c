// redsync one|contended|many SECONDS REDIS_URL [TASKS] - lock and unlock pairs per second of
// redsync with its defaults on go-redis, as one line of JSON.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const (
	warmUp     = time.Second
	contenders = 16
	inFlight   = 128
	names      = 1000000
)

type work struct {
	tasks int
	// mutexes returns, for one task, a function that returns the mutex of its next pair.
	mutexes func(*redsync.Redsync) func() *redsync.Mutex
}

func one(name string) func(*redsync.Redsync) func() *redsync.Mutex {
	return func(rs *redsync.Redsync) func() *redsync.Mutex {
		mutex := rs.NewMutex(name)
		return func() *redsync.Mutex { return mutex }
	}
}

var next atomic.Int64

func fresh(rs *redsync.Redsync) func() *redsync.Mutex {
	return func() *redsync.Mutex {
		return rs.NewMutex(fmt.Sprintf("bench:many:%d", next.Add(1)%names))
	}
}

var works = map[string]work{
	"one":       {1, one("bench:one")},
	"contended": {contenders, one("bench:contended")},
	"many":      {inFlight, fresh},
}

// pair reports whether the lock was acquired before the tries were used up.
func pair(mutex *redsync.Mutex) bool {
	if err := mutex.Lock(); err != nil {
		var taken *redsync.ErrTaken
		if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
			return false
		}
		log.Fatal(err)
	}
	if _, err := mutex.Unlock(); err != nil {
		log.Fatal(err)
	}
	return true
}

// measure counts the pairs by each task that ended within the time.
func measure(rs *redsync.Redsync, work work, length time.Duration) []int {
	counts := make([]int, work.tasks)
	end := time.Now().Add(length)
	var tasks sync.WaitGroup
	for i := range counts {
		tasks.Add(1)
		go func() {
			defer tasks.Done()
			for mutex := work.mutexes(rs); time.Now().Before(end); {
				if pair(mutex()) && time.Now().Before(end) {
					counts[i]++
				}
			}
		}()
	}
	tasks.Wait()
	return counts
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/go-redsync/redsync/v4" {
			return module.Version
		}
	}
	return ""
}

func main() {
	if len(os.Args) != 4 && len(os.Args) != 5 {
		log.Fatal("usage: redsync one|contended|many SECONDS REDIS_URL [TASKS]")
	}
	seconds, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	options, err := redis.ParseURL(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	work := works[os.Args[1]]
	if len(os.Args) == 5 {
		if work.tasks, err = strconv.Atoi(os.Args[4]); err != nil {
			log.Fatal(err)
		}
	}
	rs := redsync.New(goredis.NewPool(redis.NewClient(options)))

	measure(rs, work, warmUp)
	acquisitions := measure(rs, work, time.Duration(seconds)*time.Second)
	total := 0
	for _, count := range acquisitions {
		total += count
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"peer": "redsync", "version": version(), "work": os.Args[1],
		"pairs_per_s": float64(total) / float64(seconds), "acquisitions": acquisitions,
	})
}
