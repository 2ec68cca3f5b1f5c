"""stub_server.py - an HTTP server for tests, which can stall, fail, or send any bytes."""

import os
import selectors
import socket
import threading
import time


class Server:
    """A server that answers requests one at a time, in a thread. `reply(number)` returns the bytes to send, or
    None to close the connection. `nice` is added to the nice value of the thread."""

    def __init__(self, reply, nice=0):
        self.reply = reply
        self.nice = nice
        self.requests = []
        self.times = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.ending, self.end = socket.socketpair()
        self.selector.register(self.ending, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self.serve)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.end.close()
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()

    def serve(self):
        os.nice(self.nice)
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.ending:
                    return
                if key.fileobj is self.listener:
                    self.selector.register(self.listener.accept()[0], selectors.EVENT_READ)
                else:
                    self.answer(key.fileobj)

    def answer(self, client):
        try:
            request = client.recv(65536)
        except ConnectionError:
            request = b"" # the client closed the connection
        reply = None
        if request:
            self.times.append(time.monotonic())
            self.requests.append(request.decode())
            reply = self.reply(len(self.requests))
        if reply is not None:
            client.sendall(reply)
        if reply is None:
            self.selector.unregister(client)
            client.close()


def http(status, body=""):
    return f"HTTP/1.1 {status} Reason\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
