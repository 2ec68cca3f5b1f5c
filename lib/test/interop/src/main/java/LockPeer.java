import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Runs commands on locks of Redisson, one per line: LockPeer REDIS_URL [WATCHDOG_MS].
 *
 * <pre>
 *   TAG try NAME HOLDER WAIT_MS LEASE_MS   ok | busy; a lease of -1: the watchdog renews it
 *   TAG unlock NAME HOLDER                 ok
 *   TAG count NAME HOLDER                  ok COUNT, how often HOLDER holds it
 *   TAG id HOLDER                          ok ID, the holder's field in the lock's hash
 *   TAG locked NAME                        ok true | ok false
 *   TAG ttl NAME                           ok MS
 *   TAG force NAME                         ok true | ok false: it was free
 *   TAG quit
 * </pre>
 *
 * The answer is one line, TAG and the text above, or TAG error TEXT. Each HOLDER is a thread
 * of its own: the next line is read before the answer is ready.
 */
public final class LockPeer {
    private final RedissonClient redisson;
    private final Map<String, ExecutorService> holders = new HashMap<>();
    private final PrintStream out = System.out;

    private LockPeer(RedissonClient redisson) {
        this.redisson = redisson;
    }

    private interface Work {
        String run() throws Exception;
    }

    public static void main(String[] args) throws IOException {
        Config config = new Config();
        config.useSingleServer().setAddress(args[0]);
        if (args.length > 1) {
            config.setLockWatchdogTimeout(Long.parseLong(args[1]));
        }
        LockPeer peer = new LockPeer(Redisson.create(config));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[1].equals("quit")) {
                break;
            }
            peer.handle(words);
        }
        // Not shutdown(): the process ends without releasing anything.
        Runtime.getRuntime().halt(0);
    }

    private void handle(String[] words) {
        String verb = words[1];
        if (verb.equals("id")) {
            submit(words, words[2], () ->
                "ok " + redisson.getId() + ":" + Thread.currentThread().getId());
            return;
        }
        RLock lock = redisson.getLock(words[2]);
        switch (verb) {
            case "try" -> submit(words, words[3], () ->
                lock.tryLock(Long.parseLong(words[4]), Long.parseLong(words[5]), TimeUnit.MILLISECONDS)
                    ? "ok" : "busy");
            case "unlock" -> submit(words, words[3], () -> {
                lock.unlock();
                return "ok";
            });
            case "count" -> submit(words, words[3], () -> "ok " + lock.getHoldCount());
            case "locked" -> submit(words, "", () -> "ok " + lock.isLocked());
            case "ttl" -> submit(words, "", () -> "ok " + lock.remainTimeToLive());
            case "force" -> submit(words, "", () -> "ok " + lock.forceUnlock());
            default -> answer(words[0], "error unknown command " + verb);
        }
    }

    private void submit(String[] words, String holder, Work work) {
        holders.computeIfAbsent(holder, name -> Executors.newSingleThreadExecutor()).execute(() -> {
            try {
                answer(words[0], work.run());
            } catch (Exception e) {
                answer(words[0], "error " + String.valueOf(e.getMessage()).replace('\n', ' '));
            }
        });
    }

    private void answer(String tag, String words) {
        synchronized (out) {
            out.println(tag + " " + words);
            out.flush();
        }
    }
}
