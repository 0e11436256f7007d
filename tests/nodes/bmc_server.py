"""A BMC over TLS in a process or thread of its own: a folder's or dictionary's JSON, sessions, and faults on request."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading

import trustme
from aiohttp import web


class Server:
    """`documents`: path → bytes. `faults`: path → status or seconds to wait. One token at a time; `forget()` ends the session."""

    def __init__(self, documents, user="", password="", folder=None):
        self.documents, self.user, self.password, self.folder = documents, user, password, folder
        self.faults, self.tokens, self.logins, self.asked = {}, set(), 0, []
        self.ready, self.loop = threading.Event(), asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        authority = trustme.CA()
        self.cafile = str(self.folder / "ca.pem")
        authority.cert_pem.write_to_path(self.cafile)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1", "localhost").configure_cert(self.tls)
        self.thread.start()
        assert self.ready.wait(10)
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join(10)

    def forget(self):
        self.tokens.clear()

    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._serve())
        self.loop.close()

    async def _serve(self):
        self.stop = asyncio.Event()
        runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        self.url = f"https://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
        self.ready.set()
        await self.stop.wait()
        await runner.cleanup()
        hanging = asyncio.all_tasks() - {asyncio.current_task()}  # answers that a fault holds back
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)

    def _app(self):
        app = web.Application()
        app.router.add_post("/redfish/v1/SessionService/Sessions", self._login)
        app.router.add_route("*", "/{path:.*}", self._get)
        return app

    async def _login(self, request):
        given = json.loads(await request.read())
        if (given.get("UserName"), given.get("Password")) != (self.user, self.password):
            return web.Response(status=401)
        self.logins += 1
        token = f"token{self.logins}"
        self.tokens.add(token)
        return web.Response(status=201, headers={"X-Auth-Token": token, "Location": f"/redfish/v1/SessionService/Sessions/{self.logins}"})

    async def _get(self, request):
        path = request.path.rstrip("/")
        self.asked.append((request.method, path))
        if self.user and request.headers.get("X-Auth-Token") not in self.tokens:
            return web.Response(status=401)
        fault = self.faults.get(path)
        if isinstance(fault, float):
            await asyncio.sleep(fault)
        elif fault:
            return web.Response(status=fault)
        data = self.documents.get(path)
        return web.Response(body=data, content_type="application/json") if data is not None else web.Response(status=404)
