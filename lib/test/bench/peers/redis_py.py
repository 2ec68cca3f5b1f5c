"""redis_py.py one|contended SECONDS REDIS_URL - lock and unlock pairs per second of redis-py's
Lock with its defaults, as one line of JSON. It is given a timeout: without one, the default, a
lock whose holder dies stays locked for ever."""

import json
import sys
import threading
import time

import redis

WARM_UP_S = 1
TIMEOUT_S = 30
THREADS = {"one": 1, "contended": 16}


def run_pairs(client, work, end, counts, index):
    lock = client.lock(f"bench:{work}", timeout=TIMEOUT_S)
    while time.monotonic() < end:
        lock.acquire()
        lock.release()
        if time.monotonic() < end:
            counts[index] += 1


def measure(client, work, seconds):
    """The pairs of each thread that ended within the time."""
    counts = [0] * THREADS[work]
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=run_pairs, args=(client, work, end, counts, index))
               for index in range(len(counts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


def main():
    work, seconds, url = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    client = redis.Redis.from_url(url)
    measure(client, work, WARM_UP_S)
    acquisitions = measure(client, work, seconds)
    print(json.dumps({"peer": "redis-py", "version": redis.__version__, "work": work,
                      "pairs_per_s": sum(acquisitions) / seconds, "acquisitions": acquisitions}))


main()
