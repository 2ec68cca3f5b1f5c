/*
 * bench.js redlock|ioredis one|contended|many SECONDS REDIS_URL - lock and unlock pairs per
 * second, as one line of JSON.
 *
 * redlock runs with its defaults. ioredis alone: SET NX PX, and a compare-and-delete script
 * by defineCommand(), which sends its digest; it cannot wait, so it has no `contended`.
 */
"use strict";

const crypto = require("crypto");
const Redis = require("ioredis").default;
const Redlock = require("redlock");

const WARM_UP_S = 1;
const LEASE_MS = 30000;
const CONTENDERS = 16;
const IN_FLIGHT = 128;
const NAMES = 1000000;

const [peer, work, seconds, url] = process.argv.slice(2);
const redis = new Redis(url);

function redlockPair() {
  const redlock = new Redlock([redis]);
  return async (name) => {
    let lock;
    try {
      lock = await redlock.lock(name, LEASE_MS);
    } catch (error) {
      if (error.name === "LockError") {
        return false; // its retries are used up
      }
      throw error;
    }
    await lock.unlock();
    return true;
  };
}

function ioredisPair() {
  redis.defineCommand("release", {
    numberOfKeys: 1,
    lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
  });
  return async (name) => {
    const owner = crypto.randomBytes(16).toString("hex");
    if ((await redis.set(name, owner, "PX", LEASE_MS, "NX")) !== "OK") {
      return false;
    }
    return (await redis.release(name, owner)) === 1;
  };
}

let names = 0;
const WORKS = {
  one: { tasks: 1, name: () => "bench:one" },
  contended: { tasks: CONTENDERS, name: () => "bench:contended" },
  many: { tasks: IN_FLIGHT, name: () => `bench:many:${names++ % NAMES}` },
};

/* The pairs of each task that ended within the time. */
async function measure(pair, { tasks, name }, ms) {
  const endMs = performance.now() + ms;
  const task = async () => {
    let count = 0;
    while (performance.now() < endMs) {
      if ((await pair(name())) && performance.now() < endMs) {
        count++;
      }
    }
    return count;
  };
  return Promise.all(Array.from({ length: tasks }, task));
}

async function main() {
  const pair = { redlock: redlockPair, ioredis: ioredisPair }[peer]();
  await measure(pair, WORKS[work], WARM_UP_S * 1000);
  const acquisitions = await measure(pair, WORKS[work], seconds * 1000);
  const total = acquisitions.reduce((sum, count) => sum + count, 0);
  console.log(JSON.stringify({
    peer,
    version: require(`${peer}/package.json`).version,
    work,
    pairs_per_s: total / seconds,
    acquisitions,
  }));
  redis.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
