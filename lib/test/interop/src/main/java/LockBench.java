import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * LockBench one|contended|many SECONDS REDIS_URL - lock and unlock pairs per second of
 * Redisson's RLock with its defaults, its watchdog included, as one line of JSON.
 */
public final class LockBench {
    private static final int WARM_UP_S = 3; // the compiler's threads need the cores first
    private static final int CONTENDERS = 16;
    private static final int IN_FLIGHT = 128;
    private static final int NAMES = 1000000;

    private final RedissonClient redisson;
    private final AtomicLong names = new AtomicLong();

    private LockBench(RedissonClient redisson) {
        this.redisson = redisson;
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress(args[2]);
        RedissonClient redisson = Redisson.create(config);
        LockBench bench = new LockBench(redisson);
        int seconds = Integer.parseInt(args[1]);
        bench.measure(args[0], WARM_UP_S);
        long[] acquisitions = bench.measure(args[0], seconds);
        System.out.printf(
            "{\"peer\":\"redisson\",\"version\":\"%s\",\"work\":\"%s\",\"pairs_per_s\":%.1f,\"acquisitions\":%s}%n",
            version(), args[0], (double) Arrays.stream(acquisitions).sum() / seconds,
            Arrays.toString(acquisitions));
        redisson.shutdown();
    }

    /* From the name of its jar: redisson-VERSION.jar. */
    private static String version() {
        String jar = Redisson.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        return jar.replaceAll(".*/redisson-(.*)\\.jar", "$1");
    }

    /* The pairs of each thread or chain that ended within the time. */
    private long[] measure(String work, int seconds) throws InterruptedException {
        long endNs = System.nanoTime() + seconds * 1_000_000_000L;
        return switch (work) {
            case "one" -> withThreads(1, "bench:one", endNs);
            case "contended" -> withThreads(CONTENDERS, "bench:contended", endNs);
            case "many" -> withChains(endNs);
            default -> throw new IllegalArgumentException(work);
        };
    }

    private long[] withThreads(int count, String name, long endNs) throws InterruptedException {
        long[] counts = new long[count];
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int own = i;
            threads.add(new Thread(() -> {
                RLock lock = redisson.getLock(name);
                while (System.nanoTime() < endNs) {
                    lock.lock();
                    lock.unlock();
                    if (System.nanoTime() < endNs) {
                        counts[own]++;
                    }
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        return counts;
    }

    private long[] withChains(long endNs) {
        long[] counts = new long[IN_FLIGHT];
        List<CompletableFuture<Void>> ends = new ArrayList<>();
        for (int i = 0; i < IN_FLIGHT; i++) {
            CompletableFuture<Void> end = new CompletableFuture<>();
            ends.add(end);
            next(i, counts, endNs, end);
        }
        CompletableFuture.allOf(ends.toArray(new CompletableFuture<?>[0])).join();
        return counts;
    }

    private void next(int own, long[] counts, long endNs, CompletableFuture<Void> end) {
        RLock lock = redisson.getLock("bench:many:" + names.getAndIncrement() % NAMES);
        CompletionStage<Void> pair = lock.lockAsync(own).thenCompose(held -> lock.unlockAsync(own));
        pair.whenComplete((done, failure) -> {
            if (failure != null) {
                end.completeExceptionally(failure);
            } else if (System.nanoTime() >= endNs) {
                end.complete(null);
            } else {
                counts[own]++;
                next(own, counts, endNs, end);
            }
        });
    }
}
