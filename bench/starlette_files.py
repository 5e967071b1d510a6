"""A server of Starlette alone that takes and gives out a file: the floor for `/v1/files`. Prints its address.

`/form` reads the form as Starlette does and saves the file; `/raw` writes the body as it comes, without reading it as a form.
"""

import shutil
import sys
from pathlib import Path

import uvicorn
from anyio import open_file, to_thread
from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from limpet.ingress.server import listening_socket


def main() -> None:
    directory = Path(sys.argv[1])
    listener = listening_socket("127.0.0.1", 0)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        application(directory), loop="asyncio", http="httptools", lifespan="off", log_config=None, access_log=False
    )
    uvicorn.Server(config).run(sockets=[listener])


def application(directory: Path) -> Starlette:
    path = directory / "bare"

    async def form(request: Request) -> Response:
        async with request.form() as form:
            file = form["file"]
            if not isinstance(file, UploadFile):
                return Response(status_code=400)
            with path.open("wb") as out:
                await to_thread.run_sync(shutil.copyfileobj, file.file, out)
        return JSONResponse({"id": "bare", "bytes": path.stat().st_size})

    async def raw(request: Request) -> Response:
        async with await open_file(path, "wb") as out:
            async for piece in request.stream():
                await out.write(piece)
        return JSONResponse({"id": "bare", "bytes": path.stat().st_size})

    async def content(request: Request) -> Response:
        return FileResponse(path)

    return Starlette(
        routes=[
            Route("/form", form, methods=["POST"]),
            Route("/raw", raw, methods=["POST"]),
            Route("/bare/content", content),
        ]
    )


if __name__ == "__main__":
    main()
