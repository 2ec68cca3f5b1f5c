"""balancers.py - HAProxy and Envoy with the rules of app/docs/scaling.md, beside the nginx of harness.py."""

import re
import subprocess

import harness

DOCUMENT = f"{harness.LOAD}/../app/docs/scaling.md"
ENVOY = "var/envoy/bin/envoy"


def read(path):
    with open(path) as file:
        return file.read()


def rules(language, words, ports):
    """The block of the document that contains these words. `ports`: of its instances, by name."""
    block = next(block for block in re.findall(rf"^```{language}\n(.*?)^```$", read(DOCUMENT), re.M | re.S) if words in block)
    for name, port in ports.items():
        block = block.replace(f"{name}:8080", f"127.0.0.1:{port}").replace(
            f"address: {name}, port_value: 8080", f"address: 127.0.0.1, port_value: {port}")
    return block


class Balancer(harness.Nginx):
    """A balancer other than nginx. `text` has its configuration, where the port of the balancer is PORT."""

    def __init__(self, path, text, *command):
        self.port = harness.free_port()
        self.path = path
        self.command = command
        with open(path, "w") as conf:
            conf.write(text.replace("PORT", str(self.port)))

    def start(self):
        with open(f"{self.path}.log", "w") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *self.command, self.path],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        harness.wait_for(f"{self.command[0]} answers", self.is_up)

    def is_up(self):
        if self.process.poll() is not None:
            raise harness.Failed(f"{self.command[0]} ended: {read(f'{self.path}.log')}")
        return harness.is_taken(self.port)


def make_haproxy(place, sections):
    return Balancer(f"{place}/haproxy.cfg", """defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
""" + sections.replace("bind :80", "bind 127.0.0.1:PORT"), "/usr/sbin/haproxy", "-db", "-f")


def make_envoy(place, routes, clusters):
    """`routes` and `clusters` are lists of YAML, after their keys."""
    return Balancer(f"{place}/envoy.yaml", """static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: PORT}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: shop
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            virtual_hosts:
            - name: shop
              domains: ["*"]
""" + indent(routes, 14) + indent(clusters, 2), ENVOY, "--use-dynamic-base-id", "--concurrency", "1", "-l", "error", "-c")


def indent(text, columns):
    return "".join(" " * columns + line + "\n" for line in text.splitlines())
