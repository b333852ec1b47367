"""The official client of Python against `hushql mcp` and `hushql serve --mcp`, in both versions of the protocol.

    python tests/agents/python_client.py PROGRAM FOLDER ADDRESS TOKEN
"""

import asyncio
import sys

import httpx2  # what the SDK itself uses
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

ASK = "SELECT LAPLACE(eps={}) COUNT(*) AS n FROM people"


async def consent(_context, params):
    """The person beside the client, who allows everything."""
    assert "asks to spend" in params.message, params
    return ElicitResult(action="accept", content={"allow": True})


async def conversation(client, epsilon):
    tools = [tool.name for tool in (await client.list_tools()).tools]
    assert tools == ["tables", "price", "ask", "budget", "release_tables"], tools
    assert "people" in str((await client.call_tool("tables", {})).structured_content)
    price = await client.call_tool("price", {"sql": ASK.format(epsilon)})
    assert not price.is_error, price
    assert price.structured_content["cost"] == f"ε = {epsilon}", price
    answer = await client.call_tool("ask", {"sql": ASK.format(epsilon), "epsilon": epsilon})
    assert not answer.is_error, answer
    number = answer.structured_content["rows"][0][0]
    assert number["error"] > 0 and answer.structured_content["receipt"]["charge"] > 0
    refused = await client.call_tool("ask", {"sql": "SELECT age FROM people", "epsilon": epsilon})
    assert refused.is_error and refused.structured_content["error"]["code"] == "HQ001", refused
    texts = [str(one.uri) for one in (await client.list_resources()).resources]
    assert "hushql://grammar" in texts, texts
    read = await client.read_resource("hushql://schema")
    assert "people" in read.contents[0].text


async def main(program, folder, address, token):
    modes = ("legacy", "2026-07-28", "auto")
    # With caps first: the cap of a day counts what others spend as the same analyst.
    arguments = ["mcp", f"{folder}/study.db", "--analyst", "lab", "--session", "0.9", "--confirm", "10"]
    for number, mode in enumerate(modes, 1):
        server = StdioServerParameters(command=program, args=arguments)
        async with Client(server, mode=mode, elicitation_callback=consent) as client:
            await conversation(client, number / 16)
        print(f"Python client, stdio, {mode}: ok")
    for number, mode in enumerate(modes, 1):
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as web:
            transport = streamable_http_client(f"http://{address}/", http_client=web)
            async with Client(transport, mode=mode) as client:
                await conversation(client, 1 + number / 32)
        print(f"Python client, HTTP, {mode}: ok")
    try:
        async with Client(f"http://{address}/", mode="2026-07-28") as client:
            await client.list_tools()
    except* Exception:
        print("Python client, HTTP without a token: refused")
    else:
        raise AssertionError("a client without a token was served")


asyncio.run(main(*sys.argv[1:]))
